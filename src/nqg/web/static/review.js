// What `nqg suggest` would print: a program for each sentence, to accept or to correct. Illegal programs cannot be accepted.

import { ask, byId, drawn, make, say } from "./dom.js";

const CHECK_DELAY = 300; // milliseconds after the last key
const OUT_OF_SCOPE = "OUT_OF_SCOPE";
const added = []; // pairs, the last one can be taken back
let total = 0;

const status = (text, isError) => say(byId("review-status"), text, isError);
const cards = () => [...byId("review-list").querySelectorAll("form")];

async function list() {
  status("Looking for sentences …");
  try {
    const { suggestions } = await ask("/api/suggestions");
    total = suggestions.length;
    byId("review-list").replaceChildren(...suggestions.map(card));
    progress();
  } catch (error) {
    status(error.message, true);
  }
}

function progress() {
  const left = cards().length;
  byId("review-undo").hidden = added.length === 0;
  byId("review-next").hidden = added.length === 0;
  byId("review-count").textContent = added.length === 1 ? "1 pair" : `${added.length} pairs`;
  if (total === 0) status("Nothing to review: every sentence of the log has an answer that is sure, or is in the training file.");
  else if (left === 0) status(`All ${total} are done.`);
  else status(`${total - left + 1} of ${total}`);
}

// A sentence to annotate; of one that stands alone there is nothing to skip.
export function card({ source, why, program, nearest, guess_of: guessOf, is_guess: isGuess, confidence }) {
  const place = make("textarea", { value: program ?? "", rows: 2, spellcheck: false, required: true });
  const [rule] = drawn(nearest);
  place.placeholder = rule?.querySelector(".yield").textContent ?? "";
  const message = make("p", { className: "muted" });
  message.setAttribute("role", "status");
  const isNew = make("input", { type: "checkbox" });
  const newLabel = make("label", { className: "check new", hidden: true }, isNew, " This is new, and right: teach it");
  const accept = make("button", { type: "submit", textContent: "Accept" });
  const isListed = why !== undefined;
  const head = isListed ? [make("h2", { textContent: source }), make("p", { className: "muted", textContent: why })] : [];
  const form = make("form", { className: isListed ? "card ask suggestion" : "ask suggestion" },
    ...head,
    make("label", {}, heading(program, guessOf, isGuess, confidence), place),
    newLabel,
    message,
    make("div", { className: "row wrap" },
      accept,
      make("button", { type: "button", className: "quiet", textContent: "Not for us", onclick: () => add(OUT_OF_SCOPE) }),
      ...(isListed ? [make("button", { type: "button", className: "quiet", textContent: "Skip", onclick: leave })] : [])));
  if (rule) form.append(make("details", {}, make("summary", { textContent: "nearest rule" }), rule));

  function leave() {
    if (!isListed) return form.replaceChildren(make("p", { className: "muted", textContent: "Added to the training file; it counts once the parser is trained again." }));
    const next = form.nextElementSibling ?? form.previousElementSibling;
    form.remove();
    next?.querySelector("textarea")?.focus();
    progress();
  }

  async function add(target) {
    try {
      const { file } = await ask("/api/examples", { source, target, allows_new: isNew.checked });
      added.push({ pair: { source, target }, form, file });
      byId("review-last").replaceChildren(make("strong", { textContent: source }), " ", make("code", { textContent: target }), ` was added to ${file}.`);
      leave();
    } catch (error) {
      say(message, error.message, true);
    }
  }

  // The server says whether a program is legal; until then nothing can be accepted.
  let latest = 0;
  async function check() {
    const mine = ++latest;
    accept.disabled = true;
    if (!place.value.trim()) {
      newLabel.hidden = true;
      return say(message, "");
    }
    try {
      const { problem, new: news } = await ask("/api/check", { source, target: place.value });
      if (mine !== latest) return;
      newLabel.hidden = !news;
      if (!news) isNew.checked = false;
      say(message, problem || news, Boolean(problem || news));
      accept.disabled = Boolean(problem || (news && !isNew.checked));
    } catch (error) {
      if (mine === latest) say(message, error.message, true);
    }
  }

  let timer;
  place.addEventListener("input", () => {
    accept.disabled = true;
    clearTimeout(timer);
    timer = setTimeout(check, CHECK_DELAY);
  });
  isNew.addEventListener("change", check);
  form.addEventListener("submit", (event) => { event.preventDefault(); add(place.value); });
  form.addEventListener("keydown", (event) => {
    if (event.altKey && event.key.toLowerCase() === "n") add(OUT_OF_SCOPE);
    else if (event.altKey && event.key.toLowerCase() === "s") leave();
    else if ((event.ctrlKey || event.metaKey) && event.key === "Enter") form.requestSubmit(accept);
    else return;
    event.preventDefault();
  });
  accept.disabled = !program;
  return form;
}

function heading(program, guessOf, isGuess, confidence) {
  if (guessOf) return `A guess, the program of “${guessOf}”: correct it`;
  if (isGuess) return `A guess${confidence === null ? "" : `, ${Math.round(100 * confidence)} % sure`}: check it`;
  return program ? "Proposed program" : "Program";
}

// The pair goes out of the file, and its card comes back.
async function undo() {
  const last = added.at(-1);
  try {
    await ask("/api/undo", last.pair);
    added.pop();
    byId("review-list").prepend(last.form);
    byId("review-last").textContent = `“${last.pair.source}” was taken back.`;
    progress();
    last.form.querySelector("textarea").focus();
  } catch (error) {
    status(error.message, true);
  }
}

export function start() {
  byId("tab-review").addEventListener("click", list);
  byId("review-undo").addEventListener("click", undo);
}
