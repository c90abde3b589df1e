import { ask, byId, credit, make, percent, say } from "./dom.js";

const MOST_ROWS = 500; // of a tab that are shown; the download has all
const TABS = ["wrong", "abstained", "answered", "right"];
let results = [];
let chosen = null;

async function parseAll() {
  say(byId("batch-status"), "Parsing …");
  try {
    const answer = await ask("/api/batch", { text: byId("lines").value });
    results = answer.rows;
    show(answer);
  } catch (error) {
    say(byId("batch-status"), error.message, true);
  }
}

function show(answer) {
  say(byId("batch-status"), "");
  byId("metrics").hidden = byId("rows-card").hidden = byId("download").hidden = results.length === 0;
  byId("metrics").replaceChildren(
    metric("sentences", answer.sentences.toLocaleString("en")),
    metric("answered", `${answer.answered.toLocaleString("en")} (${percent(answer.coverage)})`),
    ...(answer.expected ? [metric("right", `${answer.right.toLocaleString("en")} of ${answer.expected.toLocaleString("en")}`), metric("exact match", percent(answer.exact_match))] : []),
  );
  chosen = null; // all rows, in the order of the lines
  showRows();
}

const metric = (name, value) => make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value }));

function showRows() {
  const counts = new Map(TABS.map((tab) => [tab, results.filter((each) => outcome(each)[0] === tab).length]));
  const tabs = [["all", null, results.length], ...TABS.map((tab) => [tab, tab, counts.get(tab)])].filter(([, , count]) => count);
  byId("row-tabs").replaceChildren(...tabs.map(([name, tab, count]) => {
    const button = make("button", { type: "button", className: "quiet", textContent: `${name} ${count.toLocaleString("en")}`, onclick: () => { chosen = tab; showRows(); } });
    button.setAttribute("aria-pressed", String(tab === chosen));
    return button;
  }));
  const rows = chosen === null ? results : results.filter((each) => outcome(each)[0] === chosen);
  const hidden = rows.length - MOST_ROWS;
  if (hidden > 0) say(byId("batch-status"), `The first ${MOST_ROWS} rows are shown; ${hidden} more are in the download.`);
  const first = rows.slice(0, MOST_ROWS);
  byId("rows").replaceChildren(...(chosen === "abstained" ? groups(first) : first.map(row)));
}

// Abstentions by their reason, the most frequent one first.
function groups(rows) {
  const byReason = Map.groupBy?.(rows, reasonOf) ?? rows.reduce((map, each) => map.set(reasonOf(each), [...(map.get(reasonOf(each)) ?? []), each]), new Map());
  return [...byReason].sort(([, one], [, other]) => other.length - one.length).flatMap(([reason, same]) => [
    make("tr", { className: "group" }, make("th", { scope: "rowgroup", colSpan: 4, textContent: `${reason} (${same.length})` })),
    ...same.map(row),
  ]);
}

const reasonOf = ({ kind, missing }) => {
  if (kind === "unsure") return "not sure enough";
  return missing.length ? `${kind}: ${missing.map((word) => `'${word}'`).join(", ")}` : kind;
};

function outcome({ is_right: right, target, answered_by: by, reason }) {
  if (target === null && right) return ["right", "not for us", reason];
  if (target === null) return ["abstained", "abstained", reason];
  if (right === null) return ["answered", credit(by), reason];
  return right ? ["right", "right", ""] : ["wrong", "wrong", ""];
}

const note = (words, program) => make("div", { className: "muted" }, `${words} `, make("code", { textContent: program }));

function row(each) {
  const [kind, words, reason] = outcome(each);
  const notes = [];
  if (each.withheld !== null) notes.push(note("withheld", each.withheld));
  if (each.is_right === false) notes.push(note("expected", each.expected));
  return make("tr", { className: kind },
    make("td", { textContent: each.sentence }),
    make("td", {}, make("code", { textContent: each.target ?? "" }), ...notes),
    make("td", { className: "number", textContent: each.probability === null ? "" : percent(each.confidence ?? each.probability) }),
    make("td", {}, make("span", { className: `badge ${kind}`, textContent: words }), make("div", { className: "muted", textContent: reason })));
}

const cell = (value) => String(value ?? "").replace(/[\t\r\n]/g, " ");

function download() {
  const columns = ["sentence", "target", "confidence", "probability", "answered_by", "reason", "expected", "is_right"];
  const lines = [columns, ...results.map((each) => columns.map((column) => each[column]))].map((line) => line.map(cell).join("\t"));
  const address = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/tab-separated-values" }));
  make("a", { href: address, download: "nqg-batch.tsv" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

export function introduce({ suggestions }) {
  byId("batch-try").hidden = suggestions.length === 0;
  byId("batch-try").onclick = () => {
    byId("lines").value = suggestions.map(({ sentence }) => sentence).join("\n");
    parseAll();
  };
}

export function start() {
  byId("batch-form").addEventListener("submit", (event) => { event.preventDefault(); parseAll(); });
  byId("file").addEventListener("change", async () => {
    const [file] = byId("file").files;
    if (file) byId("lines").value = await file.text();
  });
  byId("download").addEventListener("click", download);
}
