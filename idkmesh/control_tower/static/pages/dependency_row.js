// One dependency in the list: how it is, its beats, when it is asked next. The row stays the same element.

import { el, setAttribute, setText } from "../dom.js";
import { visible } from "../format.js";
import { isDependency } from "../words.js";
import { Strip } from "./beats.js";
import { Sign } from "./list_parts.js";
import { nextWords, readinessWord, signOf, stateWords, towards } from "./dependency_words.js";

// A link to a dependency; text alone where the name has not the form of one.
export function dependencyLink(name, text = name) {
  const shown = el("bdi", {}, visible(text));
  return isDependency(name) ? el("a", { href: `#/dependencies/${name}`, dataset: { dependency: name } }, shown) : shown;
}

export class DependencyRow {
  element;
  link;
  #item = null;
  #sign = new Sign();
  #critical = el("span.tag");
  #kind = el("span.tag");
  #state = el("b");
  #why = el("bdi");
  #towards = el("span.tag.towards");
  #without = el("span.tag.without");
  #next = el("p.next");
  #strip;

  constructor(name) {
    this.link = dependencyLink(name);
    this.#strip = new Strip(visible(name));
    this.element = el(
      "li.dependency",
      {},
      this.#sign.element,
      el(
        "div.what",
        {},
        el("p.name", {}, this.link, this.#critical, this.#kind),
        el("p.state", {}, this.#state, " ", this.#why),
        el("p.hints", {}, this.#towards, this.#without),
      ),
      el("div.beats", {}, this.#strip.element, this.#strip.readout),
      this.#next,
    );
  }

  // `time` is {passed, now}: the seconds since the answer, and the wall clock of the service in ms.
  show(item, { readiness: { status } }, chosen, { passed, now }) {
    this.#sign.show(signOf(item));
    const [state, why] = stateWords(item, now);
    setText(this.#state, why ? `${state}:` : state);
    setText(this.#why, why);
    setText(this.#next, nextWords(item, passed));
    if (chosen) {
      this.link.setAttribute("aria-current", "true");
    } else {
      this.link.removeAttribute("aria-current");
    }
    if (this.#item !== item) {
      this.#item = item;
      this.#showRest(item, status);
    }
  }

  #showRest(item, status) {
    setAttribute(this.element, "data-verdict", signOf(item));
    setText(this.#critical, item.critical ? "critical" : "noncritical");
    this.#critical.toggleAttribute("data-critical", item.critical);
    setText(this.#kind, visible(String(item.probe)));
    const row = towards(item);
    setText(this.#towards, row);
    this.#towards.hidden = row === "";
    // Told of what stands in the way; of the others, where that makes a difference.
    const { readiness_without: without } = item;
    const told = without !== status || (item.critical && item.verdict !== "ok");
    setText(this.#without, told ? `leaving it out: ${without === status ? "still " : ""}${readinessWord(without)}` : "");
    this.#without.hidden = !told;
    this.#towards.parentElement.hidden = row === "" && !told;
    this.#strip.show(item);
  }
}
