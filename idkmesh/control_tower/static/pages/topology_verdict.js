// What all releases come to, above the list: how many are in which state, which chooses among them, and how far their
// transitions are known; how the router's provider is, and where the router listens, also where there are none.

import { el, setAttribute, setText } from "../dom.js";
import { clockSeconds, count, duration, number, visible } from "../format.js";
import { state as tower } from "../state.js";
import { stateSign } from "../topology_events.js";
import { Sign } from "./list_parts.js";
import { countedWords, listenWords, lostTitle, lostWords } from "./router_words.js";
import { sample, windowOf } from "./topology_strip.js";
import { spanName, stateOf, STATES, together } from "./topology_words.js";

const ORDER = ["populated", "empty", "missing", "unavailable", "initializing"];

export class TopologyVerdict {
  element;
  chosen = ""; // a state, empty for any
  #sign = new Sign();
  #title = el("p.status", { role: "status" });
  #boundary = el("p.boundary");
  #provider = el("p.counts");
  #choice;
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
    this.#choice = el("div.chips", { role: "group", "aria-label": "Choose by state" }, ...chips);
    this.element = el(
      "section.verdict.card",
      { "aria-label": "What the releases come to", hidden: true },
      this.#sign.element,
      el(
        "div.words",
        {},
        this.#title,
        this.#boundary,
        this.#provider,
        this.#choice,
        this.#reach,
      ),
    );
  }

  update(list, history, time) {
    const router = tower.status?.router ?? null;
    const lost = lostWords(router);
    const all = list?.items.length ?? 0;
    this.element.hidden = all === 0 && !lost && !(router && (list || !router.observes));
    if (this.element.hidden) {
      return;
    }
    const counts = countsOf(list?.items ?? []);
    const [title, kind] = all > 0 ? verdictOf(all, counts) : noneOf(router, lost);
    this.#sign.show(router?.cause ? "bad" : kind);
    setText(this.#title, title);
    this.#showBoundary(lost, all);
    setText(this.#provider, providerWords(router, list, all));
    this.#choice.hidden = all === 0;
    this.#all.show(all, this.chosen === "");
    for (const [state, chip] of this.#chips) {
      chip.show(counts.get(state), this.chosen === state);
    }
    const reach = all > 0 ? reachWords(history, time) : "";
    setText(this.#reach, reach);
    this.#reach.hidden = reach === "";
  }

  // The title says it where there is no release of which it would tell.
  #showBoundary(lost, all) {
    this.#boundary.hidden = !lost;
    const [, advice] = lost ?? ["", ""];
    setText(this.#boundary, lost && all > 0 ? `${lostTitle(lost)}. ${advice}` : advice);
  }
}

function countsOf(items) {
  const counts = new Map(ORDER.map((state) => [state, 0]));
  for (const { state } of items) {
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  return counts;
}

function providerWords(router, list, all) {
  const name = visible(String(list?.provider ?? router?.provider));
  const order = all > 0 ? "Releases stand in the order of their first use." : "";
  return [`The provider is ${name}.`, countedWords(router), order, listenWords(router)].filter(Boolean).join(" ");
}

// What it says above no release: [title, sign].
function noneOf(router, lost) {
  if (lost) {
    return [lostTitle(lost), router.cause ? "bad" : "idle"];
  }
  return [router?.observes === false ? "The router asks its provider at each use" : "No release is observed yet", "idle"];
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
