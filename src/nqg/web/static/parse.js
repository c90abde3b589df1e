import { ask, byId, drawn, make, percent, say } from "./dom.js";
import { lightUp } from "./tree.js";

const READINGS = 5;

export function suggest(sentences) {
  byId("suggestions").hidden = sentences.length === 0;
  byId("suggestions").replaceChildren(
    make("span", { className: "muted", textContent: "Try" }),
    ...sentences.map((sentence) => make("button", { type: "button", className: "chip", textContent: sentence, onclick: () => parse(sentence) })),
  );
}

export async function parse(sentence) {
  byId("sentence").value = sentence;
  say(byId("status"), "Parsing …");
  try {
    const found = await ask("/api/parse", { sentence, readings: READINGS, explain: true });
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
  showAnswer(found);
  const readings = withBest(found);
  showReadings(readings, found.sureness);
  byId("derivation-part").hidden = readings.length === 0;
  if (readings.length) showDerivation(readings[0]);
  byId("chart-card").hidden = !found.chart?.length;
  byId("chart").replaceChildren(...drawn(found.chart_drawing));
}

const withBest = ({ best, readings }) =>
  best ? [best, ...readings.filter((reading) => reading.target !== best.target)] : readings;

function showAnswer({ target, answered_by: by, sureness, reason, corrections, gaps_drawing: gaps, geobase, rows }) {
  byId("answer-title").textContent = target === null ? "No answer" : "Program";
  byId("program").textContent = target ?? "The parser abstains rather than guess.";
  byId("program").classList.toggle("abstained", target === null);
  byId("program").classList.toggle("hidden", by === "grammar"); // the drawing shows it, in colours
  byId("by").textContent = by ? `by the ${by}` : "abstained";
  byId("by").className = `badge ${by ?? "nobody"}`;
  byId("sure").textContent = by === "grammar" ? sureness : "";
  byId("copy").hidden = target === null;
  byId("reason").textContent = by === "fallback" ? `The grammar did not answer: ${reason}.` : `Reason: ${reason}.`;
  byId("reason").hidden = !reason;
  byId("corrections").textContent = `Read ${corrections.map(({ written, read }) => `“${written}” as “${read}”`).join(", ")}.`;
  byId("corrections").hidden = corrections.length === 0;
  byId("geobase").hidden = !geobase;
  byId("geobase-answer").textContent = geobase?.answer ?? "";
  byId("geobase-program").textContent = geobase?.program ?? "";
  byId("query-rows").hidden = !rows;
  byId("query-rows").replaceChildren(...(rows ? [rowsTable(rows)] : []));
  byId("gaps").hidden = !gaps;
  byId("gaps").replaceChildren(...drawn(gaps));
}

function rowsTable({ columns, rows, is_cut: isCut }) {
  const line = (tag, values) => make("tr", {}, ...values.map((value) => make(tag, { textContent: value ?? "" })));
  const table = make("table", {}, make("thead", {}, line("th", columns)), make("tbody", {}, ...rows.map((row) => line("td", row))));
  const count = rows.length === 1 ? "1 row" : `${rows.length} rows`;
  table.prepend(make("caption", { textContent: isCut ? `the first ${count}` : count }));
  return table;
}

function showReadings(readings, sureness) {
  byId("readings-card").hidden = readings.length === 0;
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
  byId("outline").replaceChildren(...drawn(outline));
  lightUp(byId("derivation").firstElementChild, byId("rule"));
}

export function start() {
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
