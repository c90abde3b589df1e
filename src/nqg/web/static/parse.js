import { ask, byId, credit, drawn, make, percent, say } from "./dom.js";
import { fit, lightUp } from "./tree.js";

const READINGS = 5;
const caption = make("p", { id: "rule", className: "rule" }); // stands between the program and the tree
caption.setAttribute("aria-live", "polite");
const LONG = 160; // characters of a program that is shown in smaller letters

export function introduce({ name, rules, examples, suggestions }) {
  const learned = examples === null ? "" : `, learned from ${examples === 1 ? "1 example" : `${examples.toLocaleString("en")} examples`}`;
  byId("name").textContent = name;
  byId("about").textContent = `, by a grammar of ${rules.toLocaleString("en")} rules${learned}`;
  byId("suggestions").hidden = suggestions.length === 0;
  byId("suggestions").replaceChildren(
    make("p", { className: "muted", textContent: "Try one of its examples" }),
    ...suggestions.map(({ sentence, target }) =>
      make("button", { type: "button", className: "chip", onclick: () => parse(sentence) }, make("span", { textContent: sentence }), make("code", { textContent: target ?? "" }))),
  );
}

export async function parse(sentence) {
  byId("sentence").value = sentence;
  say(byId("status"), "Parsing …");
  try {
    const found = await ask("/api/parse", { sentence, readings: READINGS, drawings: true });
    say(byId("status"), "");
    history.replaceState(null, "", `#${encodeURIComponent(sentence)}`);
    show(found);
  } catch (error) {
    byId("result").hidden = true;
    say(byId("status"), error.message, true);
  }
}

function show(found) {
  byId("result").hidden = false;
  byId("intro").hidden = true;
  byId("suggestions").classList.add("compact");
  showAnswer(found);
  const readings = withBest(found);
  showReadings(readings, found.sureness);
  byId("derivation-part").hidden = readings.length === 0;
  if (readings.length) showDerivation(readings[0]);
  byId("chart-card").hidden = !found.chart_drawing;
  byId("chart").replaceChildren(...drawn(found.chart_drawing));
  fitChart();
}

// Where the triangle does not fit, most of what would be seen of it is empty: the table says the same.
function fitChart() {
  const picture = byId("chart").querySelector("svg");
  if (!picture || !byId("chart-card").open) return;
  const isWide = fit(picture) !== null;
  picture.parentElement.hidden = isWide;
  if (isWide) byId("chart").querySelector("details").open = true;
}

const withBest = ({ best, readings }) =>
  best ? [best, ...readings.filter((reading) => reading.target !== best.target)] : readings;

function showAnswer({ target, answered_by: by, best, sureness, reason, corrections, gaps_drawing: gaps, rows, commands }) {
  byId("answer-title").textContent = target === null ? "No answer" : "Program";
  byId("program").textContent = target ?? `${reason.slice(0, 1).toUpperCase()}${reason.slice(1)}.`;
  byId("program").classList.toggle("abstained", target === null);
  byId("program").classList.toggle("hidden", by === "grammar" && best !== null); // the drawing shows it, in colours
  byId("by").textContent = by ? credit(by) : "abstained";
  byId("by").className = `badge ${by === "both readers" ? "grammar" : by ?? "nobody"}`;
  byId("sure").textContent = by === "fallback" ? "" : sureness;
  byId("copy").hidden = target === null;
  byId("reason").textContent = by === "fallback" ? `The grammar did not answer: ${reason}.` : `${reason.slice(0, 1).toUpperCase()}${reason.slice(1)}.`;
  byId("reason").hidden = !reason || target === null;
  byId("corrections").textContent = `Read ${corrections.map(({ written, read }) => `“${written}” as “${read}”`).join(", ")}.`;
  byId("corrections").hidden = corrections.length === 0;
  byId("query-rows").hidden = !rows;
  byId("query-rows").replaceChildren(...(rows ? [rowsTable(rows)] : []));
  byId("commands").hidden = commands.length === 0;
  byId("commands").replaceChildren(...commands.map(commandItem));
  byId("gaps").hidden = !gaps;
  byId("gaps").replaceChildren(...drawn(gaps));
}

// A command of a sentence that holds several: what was said, and its program or why there is none.
function commandItem({ source, target, best, sureness, reason }) {
  const head = make("p", {}, make("q", { textContent: source.join(" ") }), ` ${sureness}`);
  const program = best ? drawn(best.drawing) : [make("p", { className: "program", textContent: target ?? reason })];
  return make("li", {}, head, ...program);
}

function rowsTable({ columns, rows, is_cut: isCut }) {
  const line = (tag, values) => make("tr", {}, ...values.map((value) => make(tag, { textContent: value ?? "" })));
  const table = make("table", {}, make("thead", {}, line("th", columns)), make("tbody", {}, ...rows.map((row) => line("td", row))));
  const count = rows.length === 1 ? "1 row" : `${rows.length} rows`;
  table.prepend(make("caption", { textContent: isCut ? `the first ${count}` : count }));
  return table;
}

function showReadings(readings, sureness) {
  byId("readings-card").hidden = readings.length < 2;
  byId("readings").replaceChildren(...readings.map((reading, at) => readingItem(reading, at, sureness)));
}

function readingItem(reading, at, sureness) {
  const bar = make("meter", { min: 0, max: 1, value: reading.probability });
  bar.setAttribute("aria-hidden", "true");
  const head = make("span", { className: "reading-head" }, make("strong", { textContent: percent(reading.probability) }), bar);
  if (!reading.is_legal) head.append(make("span", { className: "badge nobody", textContent: "not a legal program" }));
  const button = make("button", { type: "button", className: "reading" }, head, make("code", { textContent: reading.target }));
  button.setAttribute("aria-pressed", String(at === 0));
  button.addEventListener("click", () => {
    for (const other of byId("readings").querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === button));
    byId("answer-title").textContent = at === 0 ? "Program" : `Reading ${at + 1}`;
    byId("program").textContent = reading.target;
    byId("sure").textContent = at === 0 ? sureness : "a less probable reading";
    showDerivation(reading);
  });
  return make("li", {}, button);
}

function showDerivation({ drawing, outline }) {
  byId("derivation").replaceChildren(...drawn(drawing));
  const target = byId("derivation").querySelector(".target");
  target.classList.toggle("long", target.textContent.length > LONG);
  target.after(caption);
  showRoot();
  byId("outline").replaceChildren(...drawn(outline));
  lightUp(byId("derivation").firstElementChild, caption, legend(target.querySelector(".slot") !== null));
}

const legend = (hasSlots) => [
  make("span", { className: "underlined", textContent: "a colour for each rule" }),
  ...(hasSlots ? [make("span", { className: "filled", textContent: "a value of a slot" })] : []),
  make("span", { textContent: `${matchMedia("(hover: none)").matches ? "Tap" : "Point at"} a box to see what it reads and writes; ① ② are the parts below it.` }),
];

// A tree that is too wide even when it is made smaller is scrolled to its root, and says so.
function showRoot() {
  const picture = byId("derivation").querySelector("svg");
  if (!picture) return;
  const scale = fit(picture);
  byId("derivation").querySelector(".cue")?.remove();
  if (scale === null) return;
  const place = picture.parentElement, root = picture.querySelector(".node rect").getBBox();
  place.scrollLeft = (root.x + root.width / 2) * scale - place.clientWidth / 2;
  place.before(make("p", { className: "cue muted", textContent: "⟷ The tree is wider than the screen: swipe or scroll sideways." }));
}

export function start() {
  addEventListener("resize", () => { showRoot(); fitChart(); });
  byId("chart-card").addEventListener("toggle", fitChart);
  byId("parse-form").addEventListener("submit", (event) => {
    event.preventDefault();
    parse(byId("sentence").value);
  });
  byId("copy").addEventListener("click", async () => {
    await navigator.clipboard?.writeText(byId("program").textContent);
    byId("copy").textContent = "Copied";
    setTimeout(() => (byId("copy").textContent = "Copy"), 1200);
  });
  if (location.hash.length > 1) {
    try {
      parse(decodeURIComponent(location.hash.slice(1)));
    } catch {
      // a hash that is no text is no sentence
    }
  }
}
