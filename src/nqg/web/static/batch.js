import { ask, byId, credit, make, percent, say } from "./dom.js";

const MOST_ROWS = 500; // that are shown; the download has all
let results = [];

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
  const hidden = results.length - MOST_ROWS;
  say(byId("batch-status"), hidden > 0 ? `The first ${MOST_ROWS} rows are shown; ${hidden} more are in the download.` : "");
  byId("metrics").hidden = byId("rows-card").hidden = byId("download").hidden = results.length === 0;
  byId("metrics").replaceChildren(
    metric("sentences", answer.sentences.toLocaleString("en")),
    metric("answered", `${answer.answered.toLocaleString("en")} (${percent(answer.coverage)})`),
    ...(answer.expected ? [metric("right", `${answer.right.toLocaleString("en")} of ${answer.expected.toLocaleString("en")}`), metric("exact match", percent(answer.exact_match))] : []),
  );
  byId("rows").replaceChildren(...results.slice(0, MOST_ROWS).map(row));
}

const metric = (name, value) => make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value }));

function outcome({ is_right: right, target, answered_by: by, reason }) {
  if (target === null && right) return ["right", "not for us", reason];
  if (target === null) return ["abstained", "abstained", reason];
  if (right === null) return ["answered", credit(by), reason];
  return right ? ["right", "right", ""] : ["wrong", "wrong", ""];
}

function row(each) {
  const [kind, words, reason] = outcome(each);
  const expected = each.is_right === false ? [make("div", { className: "muted" }, "expected ", make("code", { textContent: each.expected }))] : [];
  return make("tr", { className: kind },
    make("td", { textContent: each.sentence }),
    make("td", {}, make("code", { textContent: each.target ?? "" }), ...expected),
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

export function start() {
  byId("batch-form").addEventListener("submit", (event) => { event.preventDefault(); parseAll(); });
  byId("file").addEventListener("change", async () => {
    const [file] = byId("file").files;
    if (file) byId("lines").value = await file.text();
  });
  byId("download").addEventListener("click", download);
}
