// What `nqg suggest` would print, with a program to accept or to correct.

import { ask, byId, drawn, make, say } from "./dom.js";

const status = (text, isError) => say(byId("review-status"), text, isError);

async function list() {
  status("Looking for sentences …");
  try {
    const { suggestions } = await ask("/api/suggestions");
    byId("review-list").replaceChildren(...suggestions.map(card));
    status(suggestions.length ? "" : "Nothing to review: every sentence of the log has an answer that is sure, or is in the training file.");
  } catch (error) {
    status(error.message, true);
  }
}

function card({ source, why, program, nearest, guess_of: guessOf }) {
  const place = make("textarea", { value: program ?? "", rows: 2, spellcheck: false, required: true });
  const [rule] = drawn(nearest);
  place.placeholder = rule?.querySelector(".yield").textContent ?? "";
  const message = make("p", { className: "muted" });
  message.setAttribute("role", "status");
  const form = make("form", { className: "card ask suggestion" },
    make("h2", { textContent: source }),
    make("p", { className: "muted", textContent: why }),
    ...(nearest ? [make("p", { className: "muted" }, "nearest rule: ", rule)] : []),
    make("label", {}, guessOf ? `A guess, the program of “${guessOf}”: correct it` : program ? "Proposed program" : "Program", place),
    make("div", { className: "row wrap" },
      make("button", { type: "submit", textContent: "Accept" }),
      make("button", { type: "button", className: "quiet", textContent: "Not for us", onclick: () => add("OUT_OF_SCOPE") }),
      make("button", { type: "button", className: "quiet", textContent: "Skip", onclick: () => form.remove() })),
    message);
  const add = async (target) => {
    try {
      const { file } = await ask("/api/examples", { source, target });
      form.replaceChildren(make("p", { className: "muted" }, make("strong", { textContent: source }), " ", make("code", { textContent: target }), ` was added to ${file}.`));
    } catch (error) {
      say(message, error.message, true);
    }
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); add(place.value); });
  return form;
}

export const start = () => byId("tab-review").addEventListener("click", list);
