// What of a list is open beside it, or why it is not there.

import { el, sign } from "../dom.js";
import { visible } from "../format.js";

// `page` is its name in the address, `one` what is listed. `isName(name)`, `gone` and `noName`: what is said of a name
// that the list has not, and of what is none. `parts(name)` gives {nodes, tick(item, list, time), show(item, list)}:
// `tick` for what grows older, `show` for each new answer.
export class ListDetail {
  element;
  #words;
  #name = "";
  #parts = null; // of what is shown
  #item = null;
  #said = "";

  constructor(words) {
    this.#words = words;
    this.element = el("aside.detail.card", { "aria-label": `The open ${words.one}`, hidden: true, tabIndex: -1 });
  }

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
      this.#parts = this.#words.parts(this.#name);
      this.#said = "";
      this.element.replaceChildren(this.#closing(), ...this.#parts.nodes);
    }
    this.#parts.tick(item, list, time);
    if (this.#item !== item) {
      this.#item = item;
      this.#parts.show(item, list);
    }
  }

  #showMissing(read) {
    const { isName, gone, noName } = this.#words;
    const said = read ? (isName(this.#name) ? gone : noName) : "Asking the service for it.";
    this.#parts = this.#item = null;
    if (this.#said !== said) {
      this.#said = said;
      this.element.replaceChildren(
        this.#closing(),
        el("h2", {}, read ? "Not here" : "Not read yet"),
        el("p.trouble", {}, said),
        el("code.id", {}, visible(this.#name.slice(0, 200))),
      );
    }
  }

  #closing() {
    const { page, one } = this.#words;
    return el("a.close", { href: `#/${page}`, "aria-label": `Close the ${one}` }, sign("bad"));
  }
}
