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
        ...pages.map(({ name, title }) =>
          el("li", {}, el("a", { href: `#/${name}`, dataset: { title, name } }, title)),
        ),
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
      if (override) {
        link.removeAttribute("href"); // nothing to go to
        link.setAttribute("aria-disabled", "true");
      } else {
        link.setAttribute("href", `#/${link.dataset.name}`);
        link.removeAttribute("aria-disabled");
      }
      if (!override && link.dataset.name === page.name) {
        link.setAttribute("aria-current", "page");
      } else {
        link.removeAttribute("aria-current");
      }
    }
    if (wanted === this.#name) {
      this.#view.go?.(rest);
    } else {
      const first = this.#name === "";
      this.#view?.close?.();
      this.#name = wanted;
      this.#root.replaceChildren();
      if (!first) {
        // Another page begins at its top, and the focus with it: what had it is gone. What the page itself gives the
        // focus to comes after.
        scrollTo(0, 0);
        this.#root.focus({ preventScroll: true });
      }
      this.#root.dataset.page = wanted;
      this.#view = override ? override(this.#root) : page.open(this.#root, rest);
    }
    this.#view.update();
  }
}
