// One release in the list: how it is, its revision and age, its states over time. The row stays the same element.

import { el, setAttribute, setText } from "../dom.js";
import { visible } from "../format.js";
import { isTarget, stateSign } from "../topology_events.js";
import { Sign } from "./list_parts.js";
import { StateStrip } from "./topology_strip.js";
import { rowWords } from "./topology_words.js";

// The name of a release, which may break after each of its parts.
export function releaseName(name) {
  const parts = visible(name).split("/");
  return el("bdi", {}, ...parts.flatMap((part, index) => [...(index ? ["/", el("wbr")] : []), part]));
}

// A link to it; text alone where the name has not the form of one.
function releaseLink(name) {
  const shown = releaseName(name);
  return isTarget(name) ? el("a", { href: `#/topology/${name}`, dataset: { release: name } }, shown) : shown;
}

export class ReleaseRow {
  element;
  link;
  #history;
  #sign = new Sign();
  #state = el("b");
  #rest = el("span");
  #strip = new StateStrip();

  constructor(name, history) {
    this.#history = history;
    this.link = releaseLink(name);
    this.element = el(
      "li.release",
      {},
      this.#sign.element,
      el("div.what", {}, el("p.name", {}, this.link), el("p.state", {}, this.#state, " ", this.#rest)),
      el("div.over", {}, this.#strip.element, this.#strip.words),
    );
  }

  show(item, _list, chosen, time) {
    this.#sign.show(stateSign(item.state));
    setAttribute(this.element, "data-state", stateSign(item.state));
    const [state, rest] = rowWords(item, this.#history.of(item.name), time.now);
    setText(this.#state, `${state}:`);
    setText(this.#rest, rest);
    if (chosen) {
      this.link.setAttribute("aria-current", "true");
    } else {
      this.link.removeAttribute("aria-current");
    }
    this.#strip.show(item, this.#history, time);
  }
}
