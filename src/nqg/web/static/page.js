import { ask, byId } from "./dom.js";
import * as batch from "./batch.js";
import * as grammar from "./grammar.js";
import * as parsing from "./parse.js";
import * as review from "./review.js";

const tabs = [...document.querySelectorAll("[role=tab]")];
const shown = () => tabs.filter((tab) => !tab.hidden);

function choose(tab) {
  for (const each of tabs) {
    const chosen = each === tab;
    each.setAttribute("aria-selected", String(chosen));
    each.tabIndex = chosen ? 0 : -1;
    byId(each.getAttribute("aria-controls")).hidden = !chosen;
  }
}

for (const tab of tabs) {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = shown().at((shown().indexOf(tab) + step) % shown().length);
    next.focus();
    next.click();
  });
}

grammar.start();
batch.start();
parsing.start();
review.start();

ask("/api/model").then((model) => {
  byId("model").textContent = `${model.name} · ${model.rules.toLocaleString("en")} rules`;
  parsing.introduce(model);
  grammar.introduce(model);
  batch.introduce(model);
  byId("tab-review").hidden = !model.has_review;
}, () => {});
