// Every endpoint of the service, from its own description, with a command and a live answer.

import { ask, curl } from "../api.js";
import { announce } from "../announce.js";
import { block, copyButton } from "../copy.js";
import { el, sign } from "../dom.js";
import { visible } from "../format.js";
import { state } from "../state.js";
import { liveAnswer } from "./answer.js";

export const api = { name: "api", title: "API", key: "a", open };

const DESCRIPTION = "/api/v1/openapi.json";
// In the order of the page; a path is in the first that it fits.
const GROUPS = {
  Events: /\/events/,
  "Health, workloads and topology": /\/(dependencies|modules|topology)|^\/metrics$/,
  "Documents and inspection": /^\/api\//,
  Probes: /^\/[a-z]+z$/,
  Page: /^/,
};
const SAMPLE = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

function open(root) {
  const list = el("div.endpoints.told", {}, el("p.empty.card", {}, "Reading the description of the service."));
  let trouble = true;
  let asking = false;
  root.append(
    el("div.head", {}, el("h1", {}, "API")),
    el(
      "p.lead",
      {},
      "Copied commands read the token from ",
      el("code", {}, "$IDKMESH_CONTROL_TOWER_TOKEN"),
      ": it stands in the printed link.",
    ),
    list,
  );

  async function read() {
    asking = true;
    try {
      const answer = await ask(DESCRIPTION);
      trouble = !answer.ok;
      list.replaceChildren(
        ...(answer.ok
          ? groups(answer.body)
          : [el("p.empty.card", {}, `The service answered ${answer.status} ${answer.code}: ${answer.message}`)]),
      );
    } catch {
      list.replaceChildren(el("p.empty.card", {}, "The service does not answer. The list is read again when it does."));
    }
    asking = false;
  }

  read();
  let was = state.statusAt;
  return {
    update() {
      // A new status is the sign that it answers again.
      if (trouble && !asking && state.statusAt !== was) {
        was = state.statusAt;
        read();
      }
    },
  };
}

const groupOf = (path) => Object.keys(GROUPS).find((title) => GROUPS[title].test(path));

function groups({ paths }) {
  const rows = Object.entries(paths).flatMap(([path, item]) =>
    ["get", "post", "put", "patch", "delete"].filter((method) => method in item).map((method) => [path, method, item]),
  );
  const parts = Object.keys(GROUPS).map((title) => [title, rows.filter(([path]) => groupOf(path) === title)]);
  return parts
    .filter(([, there]) => there.length > 0)
    .map(([title, there]) =>
      el("section", {}, el("h2", {}, title), el("div.card", {}, ...there.map((row) => endpoint(...row)))),
    );
}

function endpoint(path, method, item) {
  const operation = item[method];
  const made = el(
    "details.endpoint",
    {},
    el(
      "summary",
      {},
      el("span.method", {}, method.toUpperCase()),
      el("code.path", {}, visible(path)),
      el("span.about", {}, visible(operation.summary ?? "")),
      (operation.security ?? []).length === 0 ? el("span.tag", {}, "no token") : null,
    ),
  );
  made.addEventListener(
    "toggle",
    () => made.open && made.children.length === 1 && made.append(new Trial(path, method, item).element),
  );
  return made;
}

// An endpoint that was opened: its parameters, the command, and the answer.
class Trial {
  #command = block("", "The request as a curl command");
  #answer = el("div.answer");
  #inputs = new Map(); // name: [input, where]
  #path;
  #what;

  constructor(path, method, item) {
    const operation = item[method];
    const types = Object.keys(operation.requestBody?.content ?? {});
    this.#path = path;
    this.#what = {
      method: method.toUpperCase(),
      open: (operation.security ?? []).length === 0,
      type: types[0] ?? "",
      data: types.includes("message/http") ? SAMPLE : "",
      endless: Object.values(operation.responses ?? {}).some(({ content }) =>
        Object.keys(content ?? {}).some((type) => type.startsWith("text/event-stream")),
      ),
    };
    const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])].filter((one) =>
      ["path", "query"].includes(one.in),
    );
    const button = el("button.primary", { type: "submit" }, "Ask now");
    const form = el(
      "form.trial",
      { onsubmit: (event) => this.#ask(event, button) },
      parameters.length > 0 ? el("div.parameters", {}, ...parameters.map((one) => this.#field(one))) : null,
    );
    form.append(
      el(
        "div.row",
        {},
        button,
        copyButton("Copy as curl", () => this.#command.textContent),
      ),
      this.#command,
      this.#answer,
    );
    this.element = form;
    this.#write();
  }

  #field({ name, in: where, description = "", schema = {} }) {
    const listed = schema.enum;
    const input = listed
      ? el(
          "select",
          {},
          ...(where === "path" ? [] : [new Option("", "")]),
          ...listed.map((value) => new Option(value, value)),
        )
      : el("input", { type: "text", autocomplete: "off", spellcheck: false });
    input.addEventListener("input", () => this.#write());
    this.#inputs.set(name, [input, where]);
    return el("label", {}, visible(name), input, description ? el("span.note", {}, visible(description)) : null);
  }

  #target() {
    let path = this.#path;
    const query = new URLSearchParams();
    for (const [name, [input, where]] of this.#inputs) {
      if (where === "path") {
        path = path.replace(`{${name}}`, () => encodeURIComponent(input.value));
      } else if (input.value !== "") {
        query.append(name, input.value);
      }
    }
    const text = query.toString();
    return text ? `${path}?${text}` : path;
  }

  #write() {
    this.#command.textContent = curl(this.#target(), this.#what);
  }

  async #ask(event, button) {
    event.preventDefault();
    button.disabled = true;
    this.#answer.replaceChildren(
      el("p.note", {}, sign("idle"), this.#what.endless ? "Listening for a moment." : "Asking."),
    );
    this.#answer.replaceChildren(...(await liveAnswer({ path: this.#target(), ...this.#what })));
    announce(this.#answer.firstElementChild.textContent);
    button.disabled = false;
  }
}
