// Which page is open: the fragment of the address says so.

import { el } from "./dom.js";

export class Router {
  #pages;
  #root;
  #nav;
  #view = null;
  #name = "";

  constructor(pages, root, nav) {
    this.#pages = pages;
    this.#root = root;
    this.#nav = nav;
    nav.append(
      el(
        "ul",
        {},
        ...pages.map(({ name, title }) => el("li", {}, el("a", { href: `#/${name}`, dataset: { title } }, title))),
      ),
    );
  }

  get view() {
    return this.#view;
  }

  get title() {
    return this.#view?.title ?? this.#pages.find(({ name }) => name === this.#name)?.title ?? "";
  }

  // Shows what the address names; `override(root)` shows a view of its own in its place.
  show(override = null) {
    const [, name = "", rest = ""] = /^#\/([a-z]+)(?:\/(.*))?$/.exec(location.hash) ?? [];
    const page = this.#pages.find((one) => one.name === name) ?? this.#pages[0];
    const wanted = override ? "locked" : page.name;
    for (const link of this.#nav.querySelectorAll("a")) {
      if (link.hash === `#/${page.name}`) {
        link.setAttribute("aria-current", "page");
      } else {
        link.removeAttribute("aria-current");
      }
    }
    if (wanted === this.#name) {
      this.#view.go?.(rest);
    } else {
      this.#view?.close?.();
      this.#name = wanted;
      this.#root.replaceChildren();
      this.#root.dataset.page = wanted;
      this.#view = override ? override(this.#root) : page.open(this.#root, rest);
    }
    this.#view.update();
  }
}
