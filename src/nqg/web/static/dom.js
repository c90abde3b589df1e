// Elements from data. Text only ever becomes text; drawings come from the server, which escapes all of theirs.

export const byId = (id) => document.getElementById(id);

export function make(name, properties = {}, ...content) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...content);
  return made;
}

// A drawing is parsed in a document of its own, where no script can run, and then moved here.
export function drawn(markup) {
  const parsed = new DOMParser().parseFromString(markup ?? "", "text/html");
  return [...parsed.body.childNodes].map((node) => document.importNode(node, true));
}

export async function ask(path, body) {
  const options = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("the server cannot be reached");
  }
  if (response.status === 401) location.assign("/login");
  const answer = await response.json().catch(() => ({ error: `the server said ${response.status}` }));
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

// A model of one reader, or the agreement of two.
export const credit = (by) => (by === "both readers" ? `by ${by}` : `by the ${by}`);

export const percent = (share) =>
  share === null ? "–" : share > 0.9999 && share < 1 ? "> 99.99 %" : `${(100 * share).toPrecision(share < 0.1 ? 2 : 3).replace(/\.0+$/, "")} %`;

export function say(place, text, isError = false) {
  place.textContent = text;
  place.classList.toggle("error", isError);
}
