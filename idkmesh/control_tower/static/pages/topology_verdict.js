// What all releases come to, above the list: how many are in which state, which chooses among them, and how far their
// transitions are known.

import { el, setAttribute, setText } from "../dom.js";
import { clockSeconds, count, duration, number, visible } from "../format.js";
import { state as tower } from "../state.js";
import { stateSign } from "../topology_events.js";
import { Sign } from "./list_parts.js";
import { sample, windowOf } from "./topology_strip.js";
import { spanName, stateOf, STATES, together } from "./topology_words.js";

const ORDER = ["populated", "empty", "missing", "unavailable", "initializing"];

export class TopologyVerdict {
  element;
  chosen = ""; // a state, empty for any
  #sign = new Sign();
  #title = el("p.status", { role: "status" });
  #provider = el("p.counts");
  #reach = el("p.beside");
  #all;
  #chips;

  // `changed` is called where another state was chosen.
  constructor(chosen, changed) {
    this.chosen = chosen;
    const choose = (state) => {
      this.chosen = this.chosen === state ? "" : state;
      changed();
    };
    this.#all = new Chip("All", null, () => choose(""));
    this.#chips = new Map(ORDER.map((state) => [state, new Chip(stateOf(state)[0], state, () => choose(state))]));
    this.#sign.element.classList.add("lamp");
    const chips = [this.#all, ...this.#chips.values()].map(({ element }) => element);
    this.element = el(
      "section.verdict.card",
      { "aria-label": "What the releases come to", hidden: true },
      this.#sign.element,
      el(
        "div.words",
        {},
        this.#title,
        this.#provider,
        el("div.chips", { role: "group", "aria-label": "Choose by state" }, ...chips),
        this.#reach,
      ),
    );
  }

  update(list, history, time) {
    this.element.hidden = !list || list.items.length === 0;
    if (this.element.hidden) {
      return;
    }
    const counts = new Map(ORDER.map((state) => [state, 0]));
    for (const { state } of list.items) {
      counts.set(state, (counts.get(state) ?? 0) + 1);
    }
    const [title, kind] = verdictOf(list.items.length, counts);
    this.#sign.show(kind);
    setText(this.#title, title);
    setText(this.#provider, `The provider is ${visible(list.provider)}. In the order of their first use.`);
    this.#all.show(list.items.length, this.chosen === "");
    for (const [state, chip] of this.#chips) {
      chip.show(counts.get(state), this.chosen === state);
    }
    const reach = reachWords(history, time);
    setText(this.#reach, reach);
    this.#reach.hidden = reach === "";
  }
}

// A state with its number, which chooses it.
class Chip {
  element;
  #number = el("b");

  constructor(word, state, choose) {
    const mark = new Sign();
    if (state) {
      mark.show(stateSign(state));
    }
    this.element = el("button.chip-choice", { type: "button", onclick: choose }, state ? mark.element : "", `${word} `);
    this.element.append(this.#number);
  }

  show(size, chosen) {
    setText(this.#number, number(size));
    setAttribute(this.element, "aria-pressed", String(chosen));
    this.element.toggleAttribute("data-none", size === 0);
  }
}

function verdictOf(all, counts) {
  const of = (some) => `${number(some)} of ${count(all, "release")}`;
  const unavailable = counts.get("unavailable");
  if (unavailable > 0) {
    return [`${of(unavailable)} ${unavailable === 1 ? "is" : "are"} unavailable`, "bad"];
  }
  const without = counts.get("empty") + counts.get("missing");
  if (without > 0) {
    return [`${of(without)} ${without === 1 ? "has" : "have"} no ready endpoint`, "warn"];
  }
  const well = counts.get("populated");
  if (well < all) {
    return [`${of(all - well)} ${all - well === 1 ? "is" : "are"} not known yet`, "idle"];
  }
  return [all === 1 ? "The one release is populated" : `All ${number(all)} releases are populated`, "good"];
}

// How far the strips reach, and what may be missing in them.
function reachWords(history, time) {
  if (!history.read) {
    return history.trouble ? `Their transitions could not be read. ${history.trouble}` : "Reading their transitions.";
  }
  const { now } = time;
  const { since } = history.reach(now);
  const span = windowOf(now);
  const begun = new Date(tower.status?.started_at).getTime() || 0;
  const why = since <= begun ? ", when the tower was started" : "";
  const reach = since > now - span ? `; they are known from ${clockSeconds(since)} on${why}` : "";
  const gap = history.gap(time);
  const silent = gap ? together(duration((now - gap.from) / 1000)) : "";
  const lost = gap ? ` The event stream is not open: what changed in the last ${silent} is not known.` : "";
  const trouble = history.trouble ? ` ${history.trouble}` : "";
  const held = history.holes.filter(({ to }) => to > now - span).length;
  const holes = held > 0 ? " Too many changed at once for each to be told: that time is not known." : "";
  return `The strips show the last ${spanName(span)}${reach}.${lost}${holes}${trouble}`;
}

// What each state looks like, means, and asks for.
export function legend() {
  const rows = ORDER.flatMap((state) => {
    const [word, meaning, advice] = STATES[state];
    return [el("dt", {}, sample(state), word), el("dd", {}, meaning, " ", el("span.do", {}, advice))];
  });
  const unknown = [
    el("dt", {}, sample("unknown"), "Not known"),
    el("dd", {}, "Nothing was told of this time: events were lost, left out, or have not arrived."),
  ];
  const title = el("summary", {}, "What the states mean, and what to do");
  return el("details.legend.note", {}, title, el("dl", {}, ...rows, ...unknown));
}
