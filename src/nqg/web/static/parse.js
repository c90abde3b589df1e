import { ask, byId, credit, drawn, make, say } from "./dom.js";
import { card } from "./review.js";
import { fit, lightUp } from "./tree.js";

const READINGS = 5;
const caption = make("p", { id: "rule", className: "rule" }); // stands between the program and the tree
caption.setAttribute("aria-live", "polite");
const LONG = 160; // characters of a program that is shown in smaller letters
const SURE = 0.95;
const PHONE = matchMedia("(max-width: 820px)");
let served = { has_fallback: false, has_review: false };

export function introduce(model) {
  const { name, rules, examples, suggestions } = served = model;
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
    show({ ...found, sentence });
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
  byId("why").hidden = readings.length === 0;
  byId("aligned").replaceChildren();
  if (readings.length) showDerivation(readings[0], found.target !== null);
  showReadings(readings, found);
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

// The reading of the answer, or of the program that was withheld, comes first.
function withBest({ best, withheld, readings }) {
  const first = best ?? readings.find((reading) => reading.target === withheld?.target);
  return first ? [first, ...readings.filter((reading) => reading.target !== first.target)] : readings;
}

const sentenceCase = (text) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${/[.…!?]$/.test(text) ? "" : "."}`;

function showAnswer(found) {
  const { target, kind, answered_by: by, best, reason, corrections, gaps_drawing: gaps, rows, commands } = found;
  const abstains = target === null;
  byId("answer-title").textContent = abstains ? "No answer" : "Program";
  byId("program").textContent = abstains ? sentenceCase(reason) : target;
  byId("program").classList.toggle("abstained", abstains);
  byId("program").classList.toggle("long", !abstains && target.length > LONG);
  byId("program").classList.toggle("hidden", isDrawn(found) || kind === "unsure"); // it is shown in colours, or withheld
  showTrust(found);
  byId("by").textContent = by && (served.has_fallback || by !== "grammar") ? credit(by) : "";
  byId("copy").hidden = abstains;
  byId("reason").textContent = by === "fallback" ? `The grammar did not answer: ${reason}.` : sentenceCase(reason);
  byId("reason").hidden = !reason || abstains;
  byId("corrections").textContent = `Read ${corrections.map(({ written, read }) => `“${written}” as “${read}”`).join(", ")}.`;
  byId("corrections").hidden = corrections.length === 0;
  byId("query-rows").hidden = !rows;
  byId("query-rows").replaceChildren(...(rows ? [rowsTable(rows)] : []));
  byId("commands").hidden = commands.length === 0;
  byId("commands").replaceChildren(...commands.map(commandItem));
  byId("gaps").hidden = !gaps;
  byId("gaps").replaceChildren(...drawn(gaps));
  showLesson(found);
  if (best === null || abstains) byId("why").open = false;
}

// Whether the program of the answer is the one that the drawing shows.
const isDrawn = ({ target, best }) => target !== null && best !== null && best.target === target;

// One confidence, in words, with its figure.
function showTrust({ target, kind: why, reason, sureness, confidence, answered_by: by }) {
  const abstention = why === "unsure" ? reason : "abstained";
  const [words, ...figure] = (target === null ? abstention : sureness).split(": ");
  const isUnknown = by === "fallback" || !words;
  byId("sure").textContent = isUnknown ? "not checked" : words;
  byId("figure").textContent = isUnknown ? "" : figure.join(": ");
  const kind = target === null ? "abstained" : confidence === null || isUnknown ? "" : confidence >= SURE ? "right" : confidence < 0.5 ? "abstained" : "likely";
  byId("sure").className = `badge ${kind}`;
}

// Of an abstention: the program that was withheld, the nearest that training has, and what to do.
function showLesson({ target, sentence, kind, withheld, nearest }) {
  const teachable = target === null && kind !== "out of scope" && kind !== "too long";
  byId("withheld").hidden = !withheld;
  byId("withheld").replaceChildren(...(withheld ? ["withheld: would have been ", make("code", { textContent: withheld.target })] : []));
  byId("nearest").hidden = !nearest;
  byId("nearest").replaceChildren(...(nearest ? ["Nearest in training: ", make("q", { textContent: nearest.source }), " is ", make("code", { textContent: nearest.target })] : []));
  byId("teach").hidden = !teachable;
  byId("teach").replaceChildren(...(teachable ? [lesson(sentence, withheld)] : []));
}

function lesson(sentence, withheld) {
  if (!served.has_review) {
    const which = withheld ? "with this program or the right one" : "with its program";
    return make("p", { className: "muted", textContent: `To teach it, add the sentence ${which} to the training file, and train again.` });
  }
  const form = card({ source: sentence, program: withheld?.target ?? null, is_guess: Boolean(withheld), confidence: withheld?.confidence ?? null });
  return make("details", {}, make("summary", { textContent: "Correct and teach" }), form);
}

// A command of a sentence that holds several: what was said, and its program or why there is none.
function commandItem({ source, target, best, sureness, reason }) {
  const head = make("p", {}, make("q", { textContent: source.join(" ") }), ` ${sureness}`);
  if (!best || target === null) return make("li", {}, head, make("p", { className: "program", textContent: target ?? reason }));
  const [figure] = drawn(best.drawing);
  figure.querySelector(".words").remove();
  const tree = make("details", {}, make("summary", { textContent: "Why?" }), figure.querySelector(".scroll"));
  figure.append(tree);
  return make("li", {}, head, figure);
}

function rowsTable({ columns, rows, is_cut: isCut }) {
  const line = (tag, values) => make("tr", {}, ...values.map((value) => make(tag, { textContent: value ?? "" })));
  const table = make("table", {}, make("thead", {}, line("th", columns)), make("tbody", {}, ...rows.map((row) => line("td", row))));
  const count = rows.length === 1 ? "1 row" : `${rows.length} rows`;
  table.prepend(make("caption", { textContent: isCut ? `the first ${count}` : count }));
  return table;
}

function showReadings(readings, found) {
  byId("readings-card").hidden = readings.length < 2;
  byId("readings").replaceChildren(...readings.map((reading, at) => readingItem(reading, at, found)));
}

function readingItem(reading, at, found) {
  const head = make("span", { className: "reading-head" }, make("strong", { textContent: at + 1 }));
  if (!reading.is_legal) head.append(make("span", { className: "badge nobody", textContent: "not a legal program" }));
  const button = make("button", { type: "button", className: "reading" }, head, make("code", { textContent: reading.target }));
  button.setAttribute("aria-pressed", String(at === 0));
  button.addEventListener("click", () => {
    for (const other of byId("readings").querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === button));
    const isAnswer = at === 0 && found.target !== null;
    byId("answer-title").textContent = isAnswer ? "Program" : `Reading ${at + 1}`;
    byId("program").textContent = isAnswer ? found.target : reading.target;
    byId("program").classList.toggle("hidden", !isAnswer || isDrawn(found));
    if (isAnswer) showTrust(found);
    else {
      byId("sure").textContent = "not the answer";
      byId("figure").textContent = "";
      byId("sure").className = "badge abstained";
    }
    showDerivation(reading, !isAnswer || isDrawn(found));
  });
  return make("li", {}, button);
}

// The two lines in colours are part of the answer; the tree, or on phones the list, is behind “Why?”.
function showDerivation({ drawing, outline }, showsLines) {
  byId("derivation").replaceChildren(...drawn(drawing));
  const figure = byId("derivation").firstElementChild;
  const words = figure.querySelector(".words"), target = figure.querySelector(".target");
  target.classList.toggle("long", target.textContent.length > LONG || target.textContent.includes("\n"));
  if (showsLines) byId("aligned").replaceChildren(words, target);
  else words.remove();
  figure.prepend(caption);
  showRoot();
  byId("outline").replaceChildren(...drawn(outline));
  byId("outline-part").open = PHONE.matches;
  byId("tree-part").open = !PHONE.matches;
  lightUp(byId("result").querySelector(".answer"), caption, legend(target.querySelector(".slot") !== null));
}

const legend = (hasSlots) => [
  make("span", { className: "underlined", textContent: "a colour for each rule" }),
  ...(hasSlots ? [make("span", { className: "filled", textContent: "a value of a slot" })] : []),
  make("span", { textContent: `${matchMedia("(hover: none)").matches ? "Tap" : "Point at"} a box to see what it reads and writes; ① ② are the parts below it.` }),
];

// A tree that is too wide even when it is made smaller is scrolled to its root, and says so.
function showRoot() {
  const picture = byId("derivation").querySelector("svg");
  if (!picture?.checkVisibility()) return;
  const scale = fit(picture);
  byId("derivation").querySelector(".cue")?.remove();
  if (scale === null) return;
  const place = picture.parentElement, root = picture.querySelector(".node rect").getBBox();
  place.scrollLeft = (root.x + root.width / 2) * scale - place.clientWidth / 2;
  place.before(make("p", { className: "cue muted", textContent: "⟷ The tree is wider than the screen: swipe or scroll sideways." }));
}

export function start() {
  addEventListener("resize", () => { showRoot(); fitChart(); });
  for (const id of ["why", "tree-part"]) byId(id).addEventListener("toggle", showRoot);
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
