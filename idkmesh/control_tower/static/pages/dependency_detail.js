// One dependency, whole: what it means, what to do, its figures, its beats as a table, what has changed of it.

import { curl } from "../api.js";
import { block, copyButton } from "../copy.js";
import { el, setText, showRows, sign } from "../dom.js";
import { feed } from "../feed.js";
import { clock, count, visible } from "../format.js";
import { eventWords, isDependency } from "../words.js";
import { beatWords, Strip } from "./beats.js";
import { advice, detailRows, meaning, signOf } from "./dependency_words.js";
import { Sign } from "./dependency_row.js";

const CHANGES = 6;

export class DependencyDetail {
  element = el("aside.detail.card", { "aria-label": "The open dependency", hidden: true, tabIndex: -1 });
  #name = "";
  #parts = null; // of the dependency that is shown
  #item = null;
  #said = "";

  get name() {
    return this.#name;
  }

  open(name) {
    this.#name = name;
    this.#parts = null;
    this.#item = null;
    this.#said = "";
    this.element.hidden = name === "";
    this.element.replaceChildren();
  }

  // `item` is null where the list has none of that name, `list` where there is no list yet; `time` as for a row.
  update(item, list, time) {
    if (this.#name === "") {
      return;
    }
    if (!item) {
      this.#showMissing(list !== null);
      return;
    }
    if (!this.#parts) {
      this.#parts = new Parts(this.#name);
      this.#said = "";
      this.element.replaceChildren(closing(), ...this.#parts.nodes);
    }
    this.#parts.tick(item, list.readiness.status, time);
    if (this.#item !== item) {
      this.#item = item;
      this.#parts.show(item);
    }
  }

  #showMissing(read) {
    const missing = isDependency(this.#name)
      ? "The matrix has no dependency of this name. It may have been given up when the matrix was read again."
      : "This is no name of a dependency: those have small letters, digits, dots and hyphens, 63 at most.";
    const said = read ? missing : "Asking the service for it.";
    this.#parts = this.#item = null;
    if (this.#said !== said) {
      this.#said = said;
      this.element.replaceChildren(
        closing(),
        el("h2", {}, read ? "Not here" : "Not read yet"),
        el("p.trouble", {}, said),
        el("code.id", {}, visible(this.#name.slice(0, 200))),
      );
    }
  }
}

function closing() {
  return el("a.close", { href: "#/dependencies", "aria-label": "Close the dependency" }, sign("bad"));
}

class Parts {
  nodes;
  #sign = new Sign();
  #meaning = el("p");
  #advice = el("p.advice");
  #strip;
  #rows = el("dl.rows");
  #body = el("ol.results");
  #results = el("details.all", { ontoggle: () => this.#showResults() }, el("summary"), this.#body);
  #changes = el("ol.changes");
  #changed = el("h3", {}, "Last changes");
  #item = null;

  constructor(name) {
    const path = `/api/v1/dependencies/${name}`;
    const command = curl(path);
    this.#strip = new Strip(`${name}, in the panel`);
    this.nodes = [
      el("h2", {}, this.#sign.element, el("bdi", {}, visible(name))),
      this.#meaning,
      this.#advice,
      el("div.beats", {}, this.#strip.element, this.#strip.readout),
      this.#rows,
      el("p.note", {}, "What the probe asks is in the matrix file alone: an address or a command may be a secret."),
      this.#results,
      this.#changed,
      this.#changes,
      el(
        "div.tools",
        {},
        el("h3", {}, "Fetch it again"),
        copyButton("Copy as curl", command),
        copyButton("Copy link", `${location.origin}/#/dependencies/${name}`),
      ),
      block(command, "The same as a curl command"),
    ];
  }

  // What grows older between two answers.
  tick(item, status, { passed, now }) {
    this.#sign.show(signOf(item));
    showRows(this.#rows, detailRows(item, status, passed, now));
    this.#showChanges(item.name);
  }

  show(item) {
    this.#item = item;
    setText(this.#meaning, meaning(item));
    setText(this.#advice, advice(item));
    this.#strip.show(item);
    setText(this.#results.firstElementChild, `${count(item.results.length, "result")} in words`);
    this.#results.hidden = item.results.length === 0;
    this.#showResults();
  }

  // The newest first, and made only where somebody wants to read them.
  #showResults() {
    if (!this.#results.open || !this.#item) {
      return;
    }
    const lines = this.#item.results.map(beatWords).reverse();
    while (this.#body.children.length > lines.length) {
      this.#body.lastElementChild.remove();
    }
    lines.forEach((line, index) => {
      if (!this.#body.children[index]) {
        this.#body.append(el("li"));
      }
      setText(this.#body.children[index], line);
    });
  }

  #showChanges(name) {
    const about = ({ type, subject }) => type === "idkmesh.dependency.changed" && subject === name;
    const events = feed.events.filter(about).slice(0, CHANGES);
    this.#changed.hidden = this.#changes.hidden = events.length === 0;
    const ids = events.map(({ id }) => id).join();
    if (this.#changes.dataset.ids === ids) {
      return;
    }
    this.#changes.dataset.ids = ids;
    this.#changes.replaceChildren(
      ...events.map((event) => {
        const { title, kind, text } = eventWords(event);
        return el(
          "li",
          {},
          sign(kind),
          el("time", { dateTime: String(event.time) }, clock(event.time)),
          el("a", { href: `#/events/${event.id}` }, visible(title)),
          el("bdi.text", {}, visible(text)),
        );
      }),
    );
  }
}
