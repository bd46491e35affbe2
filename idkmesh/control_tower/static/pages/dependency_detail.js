// One dependency, whole: what it means, what to do, its figures, its beats as a table, what has changed of it.

import { fetchAgain } from "../copy.js";
import { el, setText, showRows } from "../dom.js";
import { count, visible } from "../format.js";
import { isDependency } from "../words.js";
import { beatWords, Strip } from "./beats.js";
import { advice, detailRows, meaning, signOf } from "./dependency_words.js";
import { ListDetail } from "./list_detail.js";
import { Changes, Sign } from "./list_parts.js";

export const dependencyDetail = () =>
  new ListDetail({
    page: "dependencies",
    one: "dependency",
    isName: isDependency,
    gone: "The matrix has no dependency of this name. It may have been given up when the matrix was read again.",
    noName: "This is no name of a dependency: those have small letters, digits, dots and hyphens, 63 at most.",
    parts: (name) => new Parts(name),
  });

class Parts {
  nodes;
  #sign = new Sign();
  #meaning = el("p");
  #advice = el("p.advice");
  #strip;
  #rows = el("dl.rows");
  #body = el("ol.results");
  #results = el("details.all", { ontoggle: () => this.#showResults() }, el("summary"), this.#body);
  #changes = new Changes();
  #item = null;

  constructor(name) {
    this.#strip = new Strip(`${name}, in the panel`);
    this.nodes = [
      el("h2", {}, this.#sign.element, el("bdi", {}, visible(name))),
      this.#meaning,
      this.#advice,
      el("div.beats", {}, this.#strip.element, this.#strip.readout),
      this.#rows,
      el("p.note", {}, "What the probe asks is in the matrix file alone: an address or a command may be a secret."),
      this.#results,
      this.#changes.title,
      this.#changes.list,
      ...fetchAgain(`/api/v1/dependencies/${name}`, `dependencies/${name}`),
    ];
  }

  // What grows older between two answers.
  tick(item, { readiness: { status } }, { passed, now }) {
    this.#sign.show(signOf(item));
    showRows(this.#rows, detailRows(item, status, passed, now));
    this.#changes.show(({ type, subject }) => type === "idkmesh.dependency.changed" && subject === item.name);
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
}
