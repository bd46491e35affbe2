// What the pages of lists have in common: a sign that changes in place, and what has happened to the one that is open.

import { el, sign } from "../dom.js";
import { feed } from "../feed.js";
import { clock, number, visible } from "../format.js";
import { eventWords } from "../words.js";

const CHANGES = 6;
const NAMED = 8; // each further name is found by the filter

// A sign and the words beside it say the same; the first is for the eye.
export class Sign {
  element = el("span.mark", { "aria-hidden": "true" });
  #kind = "";

  show(kind) {
    if (this.#kind !== kind) {
      this.#kind = kind;
      this.element.replaceChildren(sign(kind));
    }
  }
}

// The last events that are about something, the newest first; remade where others have come.
export class Changes {
  title;
  list = el("ol.changes");

  constructor(title = "Last changes") {
    this.title = el("h3", {}, title);
  }

  // `name` is that of what is open, which an event's words need not say again.
  show(about, name = "") {
    const events = feed.events.filter(about).slice(0, CHANGES);
    this.title.hidden = this.list.hidden = events.length === 0;
    const ids = events.map(({ id }) => id).join();
    if (this.list.dataset.ids === ids) {
      return;
    }
    this.list.dataset.ids = ids;
    this.list.replaceChildren(
      ...events.map((event) => {
        const { title, kind, text } = eventWords(event);
        return el(
          "li",
          {},
          sign(kind),
          el("time", { dateTime: String(event.time) }, clock(event.time)),
          el("a", { href: `#/events/${event.id}` }, visible(title)),
          el("bdi.text", {}, visible(name && text.startsWith(`${name}: `) ? text.slice(name.length + 2) : text)),
        );
      }),
    );
  }
}

// A line of links, remade where it says something else. `link(name)` makes each.
export function showNames(target, word, names, link) {
  target.hidden = names.length === 0;
  const said = [word, ...names].join("\n");
  if (target.dataset.said !== said) {
    target.dataset.said = said;
    const links = names.slice(0, NAMED).flatMap((name, index) => [...(index ? [", "] : []), link(name)]);
    const more = names.length > NAMED ? [` and ${number(names.length - NAMED)} more`] : [];
    target.replaceChildren(el("b", {}, `${word}: `), ...links, ...more);
  }
}
