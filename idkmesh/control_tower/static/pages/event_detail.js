// One event, whole: its attributes, its data as JSON, and how to fetch it again.

import { backoff } from "../backoff.js";
import { block, copyButton, fetchAgain } from "../copy.js";
import { el, setText, sign } from "../dom.js";
import { find, kept, sequence } from "../feed.js";
import { bytes, dateTime, pretty, visible, zone } from "../format.js";
import { dependenciesOf, eventWords } from "../words.js";
import { modulesOf } from "../workload_events.js";
import { dependencyLink } from "./dependency_row.js";
import { moduleLink } from "./module_row.js";

const NAMED = 8; // dependencies and modules that are linked to

export class EventDetail {
  element = el("aside.detail.card", { "aria-label": "The open event", hidden: true, tabIndex: -1 });
  #id = "";
  #missing = false; // the event was not there when it was last looked for
  #tries = 0;
  #retry = 0;

  get id() {
    return this.#id;
  }

  async show(id) {
    clearTimeout(this.#retry);
    this.#id = id;
    this.#missing = false;
    this.#tries = 0;
    this.element.hidden = id === "";
    if (id === "") {
      this.element.replaceChildren();
    } else {
      const waiting = el("p.empty", {}, "Looking the event up.");
      const timer = setTimeout(() => this.element.replaceChildren(close(), waiting), 150);
      await this.#look(id);
      clearTimeout(timer);
    }
  }

  // What was not there may have come with the stream or the list.
  update() {
    if (this.#missing && kept(this.#id)) {
      this.#look(this.#id);
    }
  }

  close() {
    clearTimeout(this.#retry);
    this.#id = "";
  }

  async #look(id) {
    clearTimeout(this.#retry);
    const { event, trouble, again, asked } = await find(id);
    if (this.#id !== id) {
      return;
    }
    this.#missing = !event;
    if (again) {
      this.#tries += 1;
      this.#retry = setTimeout(() => this.#look(id), backoff(this.#tries, asked));
    }
    const title = again ? "Not read yet" : "Not here";
    if (event || this.element.querySelector(".trouble")?.textContent !== trouble) {
      this.element.replaceChildren(
        close(),
        ...(event ? parts(event).filter(Boolean) : [el("h2", {}, title), el("p.trouble", {}, trouble), el("code.id", {}, visible(id))]),
      );
    }
  }
}

function close() {
  return el("a.close", { href: "#/events", "aria-label": "Close the event" }, sign("bad"));
}

function parts(event) {
  const { title, kind } = eventWords(event);
  const attributes = el("dl.rows");
  for (const [name, value] of Object.entries(event)) {
    if (name !== "data" && name !== "specversion" && name !== "datacontenttype") {
      const here = name === "time" ? `, here ${dateTime(value)} ${zone(value)}` : "";
      const shown = `${visible(String(value))}${here}`;
      attributes.append(el("div", {}, el("dt", {}, name), el("dd", {}, el("bdi", {}, shown))));
    }
  }
  const data = JSON.stringify(event.data) ?? "";
  const raw = el("button.small", { type: "button", "aria-pressed": "false", onclick: toggle }, "Whole document");
  const json = block(pretty(event.data), "Data as JSON");

  function toggle() {
    const whole = raw.getAttribute("aria-pressed") !== "true";
    raw.setAttribute("aria-pressed", String(whole));
    setText(json, pretty(whole ? event : event.data));
  }

  return [
    el("h2", {}, sign(kind), el("bdi", {}, visible(title))),
    about(event),
    attributes,
    el(
      "div.tools",
      {},
      el("h3", {}, `Data, ${bytes(new TextEncoder().encode(data).length)}`),
      raw,
      copyButton("Copy JSON", () => JSON.stringify(event, null, 2)),
    ),
    json,
    ...fetchAgain(path(event), `events/${event.id}`),
  ];
}

// Links to the dependencies and modules that it is about; null where there are none.
function about(event) {
  const all = [
    ...dependenciesOf(event).map((name) => dependencyLink(name)),
    ...modulesOf(event).map((name) => moduleLink(name)),
  ];
  const links = all.slice(0, NAMED).flatMap((link, index) => [...(index ? [", "] : []), link]);
  const more = all.length > NAMED ? [` and ${all.length - NAMED} more`] : [];
  return all.length > 0 ? el("p.related", {}, "How it is now: ", ...links, ...more) : null;
}

function path(event) {
  const before = `${event.epoch}.${String(sequence(event) - 1).padStart(12, "0")}`;
  return `/api/v1/events?limit=1&cursor=${before}`;
}
