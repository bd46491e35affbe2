// Events as rows under their day and hour; many of a kind in a row are folded into one.
//
// Laws: a row stays the same element while its event is shown, so focus stays; at most `limit` rows are drawn.

import { el, reconcile, setText, sign } from "../dom.js";
import { clock, count, dayAndHour, number, shortened, visible } from "../format.js";
import { kept, sequence } from "../feed.js";
import { eventWords } from "../words.js";

const BURST = 4; // as many of a kind one after the other are folded

export class Timeline {
  element = el("div.timeline");
  #rows = new Map(); // event id: row
  #folds = new Map(); // id of an event of a burst: the row that stands for the rest
  #hours = new Map(); // title: section
  #open = new Set(); // bursts that were unfolded, by the id of one of their events: both their ends may move
  #newest = Infinity; // the sequence of the newest event when it was last shown: later ones are new to the eye
  #changed;

  constructor(changed) {
    this.#changed = changed;
  }

  // `events` newest first; `chosen` is the id of the open one, `newest` the sequence of the newest event, filtered out
  // or not. Returns how many events the drawn rows stand for.
  show(events, chosen, limit, newest) {
    const hours = [];
    const used = { rows: new Set(), folds: new Set(), hours: new Set() };
    let drawn = 0;
    let covered = 0;
    for (const burst of bursts(events)) {
      if (drawn >= limit) {
        break;
      }
      const nodes = this.#nodes(burst, chosen, limit - drawn, used);
      drawn += nodes.length;
      covered += nodes.covered;
      if (hours.at(-1)?.title !== burst.hour) {
        hours.push({ title: burst.hour, nodes: [], count: 0 });
      }
      hours.at(-1).nodes.push(...nodes);
      hours.at(-1).count += burst.events.length;
    }
    reconcile(
      this.element,
      hours.map((hour) => this.#hour(hour, used)),
    );
    this.#forget(used);
    this.#newest = newest ?? this.#newest;
    return covered;
  }

  rows() {
    return [...this.element.querySelectorAll("a.event, button.fold")];
  }

  #nodes({ events }, chosen, room, used) {
    const folds = events.length >= BURST;
    const key = (events.find(({ id }) => this.#open.has(id) || this.#folds.has(id)) ?? events.at(-1)).id;
    const folded = folds && !this.#open.has(key);
    const held = document.activeElement?.dataset.id; // a row keeps the focus when newer ones push it into a fold
    const stays = ({ id }, index) => index === 0 || id === chosen || id === held;
    const shown = folded ? events.filter(stays) : events.slice(0, room);
    const nodes = shown.map((event) => this.#row(event, chosen, used));
    if (folds && (folded || shown.length === events.length)) {
      nodes.push(this.#fold(key, events, folded ? shown.length : 0, used));
    }
    nodes.covered = folded ? events.length : shown.length;
    return nodes;
  }

  #row(event, chosen, used) {
    used.rows.add(event.id);
    let item = this.#rows.get(event.id);
    if (!item) {
      item = el("li", {}, row(event));
      item.firstElementChild.classList.toggle("fresh", sequence(event) > this.#newest);
      this.#rows.set(event.id, item);
    }
    const link = item.firstElementChild;
    if (event.id === chosen) {
      link.setAttribute("aria-current", "true");
    } else {
      link.removeAttribute("aria-current");
    }
    return item;
  }

  #fold(key, events, outside, used) {
    used.folds.add(key);
    let item = this.#folds.get(key);
    if (!item) {
      item = el("li", {}, el("button.fold", { type: "button", onclick: () => this.#toggle(key) }));
      this.#folds.set(key, item);
    }
    const rest = events.slice(1);
    const span = `${clock(rest.at(-1).time).slice(0, 8)} to ${clock(rest[0].time).slice(0, 8)}`;
    const button = item.firstElementChild;
    const inside = number(outside ? events.length - outside : rest.length);
    button.setAttribute("aria-expanded", String(!outside));
    setText(button, outside ? `${inside} more like this, ${span}` : `Fold ${inside} of these`);
    return item;
  }

  #toggle(key) {
    if (!this.#open.delete(key)) {
      this.#open.add(key);
    }
    this.#changed();
  }

  #hour({ title, nodes, count: size }, used) {
    used.hours.add(title);
    let made = this.#hours.get(title);
    if (!made) {
      made = el("section.hour", {}, el("h2", {}, el("span", {}, title), el("span.size")), el("ol.card"));
      this.#hours.set(title, made);
    }
    setText(made.querySelector(".size"), count(size, "event"));
    reconcile(made.lastElementChild, nodes);
    return made;
  }

  #forget(used) {
    for (const id of this.#open) {
      if (!kept(id)) {
        this.#open.delete(id);
      }
    }
    for (const [there, wanted] of [
      [this.#rows, used.rows],
      [this.#folds, used.folds],
      [this.#hours, used.hours],
    ]) {
      for (const key of there.keys()) {
        if (!wanted.has(key)) {
          there.delete(key);
        }
      }
    }
  }
}

function row(event) {
  const { title, kind, text } = eventWords(event);
  return el(
    "a.event",
    { href: `#/events/${event.id}`, dataset: { id: event.id } },
    sign(kind),
    el("time", { dateTime: String(event.time) }, clock(event.time)),
    el("bdi.title", {}, visible(title)),
    el("bdi.text", {}, visible(shortened(text, 240))),
    el("span.sequence", {}, `#${number(sequence(event))}`),
  );
}

// Neighbours of one hour with the same type, source and subject.
function bursts(events) {
  const found = [];
  const hours = new Map(); // by the minute: a date is written slowly
  for (const event of events) {
    const minute = String(event.time).slice(0, 16);
    const hour = hours.get(minute) ?? dayAndHour(event.time);
    hours.set(minute, hour);
    const kind = JSON.stringify([hour, event.type, event.source, event.subject]);
    if (found.at(-1)?.kind === kind) {
      found.at(-1).events.push(event);
    } else {
      found.push({ kind, hour, events: [event] });
    }
  }
  return found;
}
