import { ask, byId, make } from "./dom.js";

const nameOf = (reference) => reference.split("/").at(-1);

function kind(schema) {
  if (schema.$ref) return make("a", { href: `#${nameOf(schema.$ref)}`, textContent: nameOf(schema.$ref) });
  if (schema.anyOf) return make("span", {}, ...schema.anyOf.flatMap((each, at) => (at ? [" or ", kind(each)] : [kind(each)])));
  if (schema.enum) return make("span", { textContent: schema.enum.join(" or ") });
  if (schema.type === "array" && schema.items) return make("span", {}, "list of ", kind(schema.items));
  return make("span", { textContent: schema.type ?? "anything" });
}

function bounds({ minimum, maximum, maxLength, default: standard }) {
  const said = [];
  if (minimum !== undefined) said.push(`from ${minimum}`);
  if (maximum !== undefined) said.push(`to ${maximum}`);
  if (maxLength !== undefined) said.push(`at most ${maxLength} characters`);
  if (standard !== undefined && standard !== null) said.push(`otherwise ${JSON.stringify(standard)}`);
  return said.join(", ");
}

const field = (name, schema) =>
  make("tr", {}, make("th", { scope: "row" }, make("code", { textContent: name })), make("td", {}, kind(schema)),
    make("td", { textContent: [schema.description, bounds(schema)].filter(Boolean).join(" ") }));

// A command for a shell, in which text between single quotes is only text.
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function command(path, method, sentences) {
  const bodies = {
    "/api/parse": { sentence: sentences[0], readings: 3 },
    "/api/batch": { sentences: sentences.slice(0, 2) },
    "/api/check": { source: sentences[0], target: "…" },
    "/api/examples": { source: sentences[0], target: "…" },
    "/api/undo": { source: sentences[0], target: "…" },
  };
  const query = path === "/api/rules" ? `?search=${encodeURIComponent(sentences[0].split(" ")[0])}` : "";
  const words = [`curl -s ${quoted(`${location.origin}${path}${query}`)}`];
  if (method === "post") words.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(bodies[path]))}`);
  return make("pre", {}, make("code", { textContent: words.join(" \\\n  ") }));
}

function endpoint(path, method, operation, sentences) {
  const body = operation.requestBody?.content["application/json"].schema;
  const answer = operation.responses["200"].content["application/json"].schema;
  const parameters = (operation.parameters ?? []).map((each) => field(each.name, each.schema));
  return make("article", { className: "card" },
    make("h2", {}, make("span", { className: "badge right", textContent: method.toUpperCase() }), " ", make("code", { textContent: path })),
    make("p", { textContent: operation.summary }),
    command(path, method, sentences),
    ...(parameters.length ? [make("div", { className: "scroll" }, make("table", {}, make("tbody", {}, ...parameters)))] : []),
    make("p", {}, ...(body ? ["takes ", kind(body), ", "] : []), "gives ", kind(answer)));
}

function message(name, schema) {
  const fields = Object.entries(schema.properties ?? {}).map(([key, each]) => field(key, each));
  return make("article", { className: "card", id: name }, make("h2", { textContent: name }),
    make("p", { textContent: schema.description ?? "" }), make("div", { className: "scroll" }, make("table", {}, make("tbody", {}, ...fields))));
}

Promise.all([ask("/openapi.json"), ask("/api/model")]).then(([{ paths, components }, { suggestions }]) => {
  const sentences = suggestions.length ? suggestions.map(({ sentence }) => sentence) : ["a sentence"];
  const endpoints = Object.entries(paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => endpoint(path, method, operation, sentences)));
  const messages = Object.entries(components.schemas).map(([name, schema]) => message(name, schema));
  byId("endpoints").replaceChildren(...endpoints, make("h1", { textContent: "Messages" }), ...messages);
}, (error) => { byId("endpoints").textContent = error.message; });
