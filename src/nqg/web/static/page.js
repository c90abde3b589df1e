import { ask, byId } from "./dom.js";
import * as batch from "./batch.js";
import * as grammar from "./grammar.js";
import * as parsing from "./parse.js";

const tabs = [...document.querySelectorAll("[role=tab]")];

function choose(tab) {
  for (const each of tabs) {
    const chosen = each === tab;
    each.setAttribute("aria-selected", String(chosen));
    each.tabIndex = chosen ? 0 : -1;
    byId(each.getAttribute("aria-controls")).hidden = !chosen;
  }
}

for (const [at, tab] of tabs.entries()) {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(at + step + tabs.length) % tabs.length];
    next.focus();
    next.click();
  });
}

grammar.start();
batch.start();
parsing.start();

ask("/api/model").then((model) => {
  byId("model").textContent = `${model.name} · ${model.rules.toLocaleString("en")} rules`;
  parsing.suggest(model.suggestions);
}, () => {});
