// What happened, as it happens.
//
// Laws: paused shows what was there when it was paused, and how many wait; a filter says how many it hides; rows that
// the stream no longer renews are grey and have an age.

import { el, setAttribute, setText, sign } from "../dom.js";
import { feed, loadOlder, MOST, sequence } from "../feed.js";
import { count, duration, number, visible } from "../format.js";
import { isStale, STALE, state } from "../state.js";
import { streamWords } from "../words.js";
import { EventDetail } from "./event_detail.js";
import { Timeline } from "./timeline.js";

export const events = { name: "events", title: "Events", key: "e", open: (root, rest) => new EventsView(root, rest) };

const ROWS = 150; // drawn at first, and again with each "more"
const CHOICES = [
  ["type", "Type"],
  ["source", "Source"],
  ["subject", "Subject"],
];

class EventsView {
  #timeline = new Timeline(() => this.update());
  #detail = new EventDetail();
  #text = el("input", {
    type: "search",
    id: "filter",
    autocomplete: "off",
    spellcheck: false,
    oninput: () => this.update(),
  });
  #choices = new Map(
    CHOICES.map(([key]) => [key, el("select", { id: `filter-${key}`, onchange: () => this.update() })]),
  );
  #pause = el("button", { type: "button", id: "pause", onclick: () => this.#togglePause() }, "Pause");
  #live = el("p.live");
  #summary = el("p.summary", { id: "summary" });
  #more = el("button", { type: "button", id: "older", onclick: () => this.#showMore() }, "Load older");
  #end = el("p.note.end");
  #empty = el("p.empty.card", { id: "empty" });
  #list = el("div.list.told");
  #pausedAt = null; // the newest sequence when it was paused
  #limit = ROWS;
  #covered = 0;
  #matching = [];
  #searched = ""; // the text that #found is about
  #found = new WeakMap(); // event: whether it has that text

  constructor(root, rest) {
    const fields = CHOICES.map(([key, name]) =>
      el("label", { htmlFor: `filter-${key}` }, name, this.#choices.get(key)),
    );
    this.#list.append(this.#empty, this.#timeline.element, el("div.more", {}, this.#more, this.#end));
    root.append(
      el("div.head", {}, el("h1", {}, "Events"), this.#live, this.#pause),
      el("search.filters", {}, el("label.grow", { htmlFor: "filter" }, "Search", this.#text), ...fields),
      this.#summary,
      el("div.split", {}, this.#list, this.#detail.element),
    );
    this.go(rest);
  }

  get keys() {
    return {
      "/": { does: "Search", run: () => this.#text.focus() },
      p: { does: "Pause, or go on", run: () => this.#togglePause() },
      j: { does: "Next event", run: () => this.#move(1) },
      k: { does: "Event before", run: () => this.#move(-1) },
      Enter: { does: "Open the event", run: () => document.activeElement?.click() },
      Escape: { does: "Close the event, leave the search", run: () => this.#escape() },
    };
  }

  async go(rest) {
    const before = this.#detail.id;
    this.update();
    await this.#detail.show(rest);
    setAttribute(this.#list.parentElement, "data-open", String(rest !== ""));
    this.update();
    if (rest === "" && before) {
      this.#timeline
        .rows()
        .find((row) => row.dataset.id === before)
        ?.focus();
    } else if (rest && before !== rest && matchMedia("(max-width: 60rem)").matches) {
      this.#detail.element.scrollIntoView({ block: "start" });
    }
  }

  update() {
    this.#fillChoices();
    const shown =
      this.#pausedAt === null ? feed.events : feed.events.filter((event) => sequence(event) <= this.#pausedAt);
    this.#matching = shown.filter(this.#filter());
    this.#covered = this.#timeline.show(this.#matching, this.#detail.id, this.#limit);
    this.#showLive();
    this.#showSummary(shown.length);
    this.#showEnd(shown.length);
  }

  #filter() {
    const wanted = [...this.#choices].filter(([, select]) => select.value !== "");
    const text = this.#text.value.trim().toLowerCase();
    if (text !== this.#searched) {
      this.#searched = text;
      this.#found = new WeakMap();
    }
    return (event) =>
      wanted.every(([key, select]) => (event[key] ?? "\u2014") === select.value) && (text === "" || this.#has(event));
  }

  // Whether the text stands in an event. An event may be long, so each is read once for a text.
  #has(event) {
    if (!this.#found.has(event)) {
      this.#found.set(event, JSON.stringify(event).toLowerCase().includes(this.#searched));
    }
    return this.#found.get(event);
  }

  #fillChoices() {
    for (const [key, select] of this.#choices) {
      const values = new Set(feed.events.map((event) => event[key] ?? "\u2014"));
      if (select.value) {
        values.add(select.value);
      }
      const sorted = [...values].sort();
      if (
        sorted.join("\n") !==
          [...select.options]
            .slice(1)
            .map(({ value }) => value)
            .join("\n") ||
        select.options.length === 0
      ) {
        const chosen = select.value;
        select.replaceChildren(new Option("Any", ""), ...sorted.map((value) => new Option(visible(value), value)));
        select.value = chosen;
      }
    }
  }

  #showLive() {
    const paused = this.#pausedAt !== null;
    const waiting = paused ? feed.events.findIndex((event) => sequence(event) <= this.#pausedAt) : 0;
    const waits = waiting < 0 ? feed.events.length : waiting;
    const [short, long] = streamWords(state.stream);
    const live = state.stream.phase === "live";
    const kind = paused ? "idle" : live && !isStale() ? "good" : "warn";
    if (this.#live.dataset.kind !== kind) {
      this.#live.dataset.kind = kind;
      this.#live.replaceChildren(sign(kind), el("span"));
    }
    const age = performance.now() - Math.max(state.stream.at, feed.loadedAt);
    const old = !live && feed.loaded && age > STALE;
    this.#list.toggleAttribute("data-stale", old);
    const silent = live && isStale(); // open, as far as anybody knows
    const asOf = old ? ` Shown as of ${duration(age / 1000)} ago.` : "";
    const words = silent ? "No answer" : live ? short : `${short}. ${long}${asOf}`;
    setText(this.#live.lastElementChild, paused ? `Paused, ${count(waits, "event waits", "events wait")}` : words);
    setText(this.#pause, paused ? "Go on" : "Pause");
    setAttribute(this.#pause, "aria-pressed", String(paused));
  }

  #showSummary(shown) {
    const hidden = shown - this.#matching.length;
    const matching =
      hidden > 0 ? `${number(this.#matching.length)} of ${count(shown, "event")} match` : count(shown, "event");
    setText(this.#summary, `${matching}${feed.trouble ? `. ${feed.trouble}` : ""}`);
    this.#empty.hidden = this.#matching.length > 0;
    setText(this.#empty, emptyWords(shown));
  }

  #showEnd(shown) {
    const folded = this.#covered < this.#matching.length;
    const full = feed.events.length >= MOST;
    this.#more.hidden = shown === 0 || (!folded && (feed.ended || full));
    this.#more.disabled = feed.busy;
    setText(this.#more, folded ? "Show more" : "Load older");
    const end = feed.ended
      ? "This is the oldest event that is kept."
      : `This page keeps ${number(MOST)} events. \`idkmesh events list\` has the rest.`;
    setText(this.#end, !folded && shown > 0 && (feed.ended || full) ? end : "");
  }

  #showMore() {
    this.#limit += ROWS;
    if (this.#covered >= this.#matching.length) {
      loadOlder();
    }
    this.update();
  }

  #togglePause() {
    const newest = feed.events[0];
    this.#pausedAt = this.#pausedAt === null ? (newest ? sequence(newest) : 0) : null;
    this.update();
  }

  #move(step) {
    const rows = this.#timeline.rows();
    const at = rows.indexOf(document.activeElement);
    const next =
      at < 0
        ? rows.findIndex((row) => row.dataset.id === this.#detail.id) + (at < 0 && !this.#detail.id ? 1 : step)
        : at + step;
    const row = rows[Math.min(Math.max(next, 0), rows.length - 1)];
    row?.focus();
    row?.scrollIntoView({ block: "nearest" });
  }

  #escape() {
    if (document.activeElement === this.#text) {
      this.#text.value = "";
      this.#text.blur();
      this.update();
    } else if (this.#detail.id) {
      location.hash = "#/events";
    }
  }
}

function emptyWords(shown) {
  if (!feed.available) {
    return "This service keeps no events.";
  }
  if (!feed.loaded) {
    return feed.trouble || "Reading the events.";
  }
  return shown > 0
    ? "No event that is here matches. Change the filter, or load older ones."
    : "Nothing has happened yet. Events appear here as they are stored.";
}
