// What happened, as it happens.
//
// Laws: paused shows what was there when it was paused, whatever arrives, and how many wait; a store that was replaced
// ends the pause; a filter says how many it hides; what the stream no longer renews is grey and has an age.

import { announceLater } from "../announce.js";
import { el, reconcile, setAttribute, setText, sign } from "../dom.js";
import { feed, loadOlder, MOST, sequence } from "../feed.js";
import { count, duration, number, visible } from "../format.js";
import { instant, isStale, STALE, state } from "../state.js";
import { streamWords } from "../words.js";
import { EventDetail } from "./event_detail.js";
import { Timeline } from "./timeline.js";

export const events = { name: "events", title: "Events", key: "e", open: (root, rest) => new EventsView(root, rest) };

const ROWS = 150; // drawn at first, and again with each "more"
const NARROW = matchMedia("(max-width: 60rem)"); // as in events.css
const CHOICES = [
  ["type", "Type"],
  ["source", "Source"],
  ["subject", "Subject"],
];

let left = {}; // what was searched and chosen when the page was left: it is found again

class EventsView {
  #timeline = new Timeline(() => this.update());
  #detail = new EventDetail();
  #text = el("input", {
    type: "search",
    id: "filter",
    autocomplete: "off",
    spellcheck: false,
    oninput: () => this.#filtered(),
  });
  #choices = new Map(
    CHOICES.map(([key]) => [key, el("select", { id: `filter-${key}`, onchange: () => this.#filtered() })]),
  );
  #pause = el("button", { type: "button", id: "pause", onclick: () => this.#togglePause() }, "Pause");
  #live = el("p.live");
  #summary = el("p.summary", { id: "summary" });
  #more = el("button", { type: "button", id: "older", onclick: () => this.#showMore() }, "Load older");
  #end = el("p.note.end");
  #empty = el("p.empty.card", { id: "empty" });
  #list = el("div.list");
  #split = el("div.split");
  #told = el("div.told");
  #paused = null; // what was there when it was paused: {events, epoch, newest}
  #turned = () => this.#arrange();
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
    );
    const filters = root.lastElementChild;
    this.#told.append(filters, this.#summary, this.#split);
    root.append(this.#told);
    this.#arrange();
    NARROW.addEventListener("change", this.#turned);
    this.#text.value = left.text ?? "";
    for (const [key, select] of this.#choices) {
      if (left[key]) {
        select.append(new Option(visible(left[key]), left[key]));
        select.value = left[key];
      }
    }
    this.go(rest);
  }

  get keys() {
    return {
      "/": { does: "Search", run: () => this.#text.focus() },
      p: { does: "Pause, or go on", run: () => this.#togglePause() },
      j: { does: "Next event", run: () => this.#move(1) },
      k: { does: "Event before", run: () => this.#move(-1) },
      Escape: { does: "Close the event, leave the search", run: () => this.#escape() },
    };
  }

  async go(rest) {
    const before = this.#detail.id;
    this.update();
    await this.#detail.show(rest);
    setAttribute(this.#split, "data-open", String(rest !== ""));
    this.update();
    if (rest === "" && before) {
      const row = this.#timeline.rows().find(({ dataset }) => dataset.id === before);
      (row ?? document.getElementById("main")).focus();
    } else if (rest && before !== rest && this.#detail.id === rest) {
      this.#detail.element.focus({ preventScroll: true });
      if (NARROW.matches) {
        this.#detail.element.scrollIntoView({ block: "start" });
      }
    }
  }

  close() {
    const choices = [...this.#choices].map(([key, select]) => [key, select.value]);
    left = { text: this.#text.value, ...Object.fromEntries(choices) };
    NARROW.removeEventListener("change", this.#turned);
    this.#detail.close();
  }

  // The order of the document is that of the eye: the open event stands above the list where there is one column.
  #arrange() {
    const parts = [this.#list, this.#detail.element];
    reconcile(this.#split, NARROW.matches ? parts.reverse() : parts);
  }

  update() {
    this.#detail.update();
    if (this.#paused && feed.epoch && this.#paused.epoch && feed.epoch !== this.#paused.epoch) {
      this.#paused = null; // of another store: a message says that it was replaced
    }
    const shown = this.#shown();
    this.#fillChoices(shown);
    this.#matching = shown.filter(this.#filter());
    this.#covered = this.#timeline.show(this.#matching, this.#detail.id, this.#limit, this.#newest());
    this.#showLive();
    this.#showSummary(shown.length);
    this.#showEnd(shown.length);
  }

  // Paused, the rows of then, and older ones that were read since.
  #shown() {
    if (!this.#paused) {
      return feed.events;
    }
    const { events } = this.#paused;
    const oldest = events.length > 0 ? sequence(events.at(-1)) : 0;
    return [...events, ...feed.events.filter((event) => sequence(event) < oldest)];
  }

  #newest() {
    const newest = this.#paused ? this.#paused.events[0] : feed.events[0];
    return newest ? sequence(newest) : null;
  }

  // A sequence has no hole, so what waits is known although this page may have let some of it go already.
  #waiting() {
    const newest = feed.events[0];
    const from = this.#paused.newest || sequence(feed.events.at(-1) ?? { sequence: 1 }) - 1;
    return newest ? sequence(newest) - from : 0;
  }

  #filtered() {
    this.update();
    announceLater(this.#summary.textContent);
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

  #fillChoices(shown) {
    for (const [key, select] of this.#choices) {
      const values = new Set(shown.map((event) => event[key] ?? "\u2014"));
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
    const paused = this.#paused !== null;
    const [short, long] = streamWords(state.stream);
    const live = state.stream.phase === "live";
    const kind = paused ? "idle" : live && !isStale() ? "good" : "warn";
    if (this.#live.dataset.kind !== kind) {
      this.#live.dataset.kind = kind;
      this.#live.replaceChildren(sign(kind), el("span"));
    }
    const age = instant() - Math.max(state.stream.at, feed.loadedAt);
    const old = !live && feed.loaded && age > STALE;
    this.#told.toggleAttribute("data-stale", old);
    const silent = live && isStale(); // open, as far as anybody knows
    const asOf = old ? ` Shown as of ${duration(age / 1000)} ago.` : "";
    const words = silent ? "No answer" : live ? short : `${short}. ${long}${asOf}`;
    const waits = paused ? `Paused, ${count(this.#waiting(), "event waits", "events wait")}` : "";
    setText(this.#live.lastElementChild, waits || words);
    setText(this.#pause, paused ? "Go on" : "Pause");
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
    // After a flood the events before the paused rows are not the next that would be read.
    const last = feed.events.at(-1);
    const parted = this.#paused?.events.length > 0 && last && sequence(last) > sequence(this.#paused.events.at(-1));
    this.#more.hidden = shown === 0 || (!folded && (feed.ended || full || parted));
    this.#more.disabled = feed.busy;
    setText(this.#more, folded ? "Show more" : "Load older");
    setText(this.#end, shown > 0 && !folded && !parted ? endWords(full) : "");
  }

  #showMore() {
    this.#limit += ROWS;
    if (this.#covered >= this.#matching.length) {
      loadOlder();
    }
    this.update();
  }

  #togglePause() {
    const { events, epoch } = feed;
    this.#paused = this.#paused ? null : { events, epoch, newest: events.length > 0 ? sequence(events[0]) : 0 };
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

function endWords(full) {
  if (feed.ended) {
    return "This is the oldest event that is kept.";
  }
  const { floor, newest } = state.status?.operations?.events ?? {};
  const kept = Number.isInteger(newest - floor) ? Math.max(newest - floor, feed.events.length) : null;
  const here = kept === null ? "" : `${number(feed.events.length)} of ${number(kept)} kept events are here.`;
  return full ? `${here} This page keeps ${number(MOST)} events. idkmesh events list has the rest.`.trim() : here;
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
