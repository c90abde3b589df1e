import { ask, byId, drawn, make, say } from "./dom.js";
import { parse } from "./parse.js";

const PAGE = 50;
let offset = 0;
let latest = 0;

export async function list() {
  const mine = ++latest;
  const query = new URLSearchParams({
    search: byId("search").value, order: byId("order").value, by_hand: byId("by-hand").checked, offset, limit: PAGE,
  });
  try {
    const answer = await ask(`/api/rules?${query}`);
    if (mine === latest) show(answer); // a slower answer to an earlier search must not win
  } catch (error) {
    say(byId("rules-status"), error.message, true);
  }
}

function show({ found, rules }) {
  const range = rules.length ? `, ${offset + 1} to ${offset + rules.length} shown` : "";
  say(byId("rules-status"), `${found.toLocaleString("en")} ${found === 1 ? "rule" : "rules"}${range}`);
  byId("rules").replaceChildren(...(byId("order").value === "function" ? grouped(rules) : rules.map(row)));
  byId("earlier").disabled = offset === 0;
  byId("later").disabled = offset + rules.length >= found;
}

// A heading before the first rule of each group.
function grouped(rules) {
  const rows = [];
  let group = null;
  for (const rule of rules) {
    if (rule.group !== group) {
      const heading = make("th", { scope: "rowgroup", colSpan: 3, textContent: rule.group });
      rows.push(make("tr", { className: "group" }, heading));
      group = rule.group;
    }
    rows.push(row(rule));
  }
  return rows;
}

function row(rule) {
  const examples = rule.examples.map((sentence) =>
    make("button", { type: "button", className: "chip", textContent: sentence, onclick: () => open(sentence) }),
  );
  return make("tr", { className: "found" },
    make("td", {}, ...drawn(rule.drawing),
      ...(rule.by_hand ? [make("span", { className: "badge", textContent: "by hand" })] : [])),
    make("td", { className: "number", textContent: rule.uses.toLocaleString("en") }),
    make("td", {}, ...examples.slice(0, 1), ...(rule.uses > 1 && examples.length ? [make("span", { className: "muted", textContent: `+ ${rule.uses - 1}` })] : [])));
}

function open(sentence) {
  byId("tab-parse").click();
  parse(sentence);
}

export const introduce = (model) => { byId("by-hand-label").hidden = model.by_hand === 0; };

export function start() {
  const restart = () => { offset = 0; list(); };
  byId("rules-form").addEventListener("submit", (event) => event.preventDefault());
  byId("search").addEventListener("input", restart);
  byId("order").addEventListener("change", restart);
  byId("by-hand").addEventListener("change", restart);
  byId("earlier").addEventListener("click", () => { offset = Math.max(0, offset - PAGE); list(); });
  byId("later").addEventListener("click", () => { offset += PAGE; list(); });
  byId("tab-grammar").addEventListener("click", list);
}
