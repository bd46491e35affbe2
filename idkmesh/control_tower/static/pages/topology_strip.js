// The states of one release over time, now at the right end.
//
// Laws: states differ by shape before colour: populated stands full on the line, empty is low and hollow, missing is
// high and hollow, unavailable hangs from the line, initializing lies flat; what is not known is a dashed line, and
// before the release was observed there is the line alone. What it comes to stands in words beside it.

import { el, setAttribute, setText, svg } from "../dom.js";
import { duration } from "../format.js";
import { state } from "../state.js";
import { spansOf } from "./topology_spans.js";
import { stripWords } from "./topology_words.js";

const WIDTH = 600;
const BASE = 20;
const HEIGHT = 34;
const LEAST = 3; // units of a span that is shorter
const FINE = 200; // steps in which the picture moves
const WINDOWS = [1, 5, 15, 60].map((minutes) => minutes * 60_000); // ms

const SHAPES = {
  populated: (x, width) => `M${x} ${BASE}V4h${width}V${BASE}z`,
  empty: (x, width) => `M${x} ${BASE}V13h${width}V${BASE}z`,
  missing: (x, width) => `M${x} ${BASE}V6h${width}V${BASE}`,
  unavailable: (x, width) => `M${x} ${BASE}V32h${width}V${BASE}z`,
  initializing: (x, width) => `M${x} ${BASE}V17h${width}V${BASE}z`,
  unknown: (x, width) => `M${x} ${BASE}h${width}`,
};

const NAMES = ["none", ...Object.keys(SHAPES)];

// What the strips show: the shortest of WINDOWS in which all of this run of the tower is.
export function windowOf(now) {
  const up = now - (new Date(state.status?.started_at).getTime() || now);
  return WINDOWS.find((each) => each >= up) ?? WINDOWS.at(-1);
}

export class StateStrip {
  element;
  words = el("p.readout");
  #paths = Object.fromEntries(NAMES.map((name) => [name, svg("path", { class: name })]));
  #key = "";
  #spans = []; // what is drawn

  constructor() {
    const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" };
    this.element = el("div.states", {}, svg("svg", box, ...Object.values(this.#paths)));
  }

  // Drawn anew where it would look different.
  show(item, history, time) {
    const { now } = time;
    const span = windowOf(now);
    const evidence = history.of(item.name);
    const gap = history.gap(time);
    const moved = Math.floor(now / (span / FINE));
    const key = [item.state, item.observedAt, history.version, history.read, gap !== null, span, moved].join();
    this.element.hidden = !history.read;
    if (this.#key !== key && history.read) {
      this.#key = key;
      this.#draw(item, history, now, span, gap);
    }
    setText(this.words, history.read ? stripWords(evidence, this.#spans, now) : "Reading its transitions.");
    this.words.hidden = !history.read && history.trouble !== "";
  }

  #draw(item, history, now, span, gap) {
    const { since, first } = history.reach(now);
    const from = Math.max(since, now - span);
    const told = history.of(item.name);
    const begin = Math.min(since, from);
    const present = { state: item.state, observedAt: new Date(item.observedAt).getTime() || 0 };
    const holes = gap ? [...history.holes, gap] : history.holes;
    const all = spansOf(told.filter(({ at }) => at >= begin), { since: begin, until: now, first, holes, now: present });
    this.#spans = all.filter(({ to }) => to > from).map((one) => ({ ...one, from: Math.max(one.from, from) }));
    const drawn = Object.fromEntries(NAMES.map((name) => [name, ""]));
    for (const each of this.#spans.filter(({ state: name }) => Object.hasOwn(SHAPES, name))) {
      const [left, right] = [each.from, each.to].map((at) => WIDTH * (1 - (now - at) / span));
      const width = each.state === "initializing" ? right - left : Math.max(right - left, LEAST);
      drawn[each.state] += SHAPES[each.state](Math.min(left, WIDTH - width).toFixed(1), width.toFixed(1));
    }
    drawn.none = `M0 ${BASE}H${WIDTH}`;
    for (const [name, path] of Object.entries(this.#paths)) {
      setAttribute(path, "d", drawn[name]);
    }
  }
}

// A picture of one state alone.
export function sample(name) {
  const box = { viewBox: `0 0 24 ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" };
  const line = svg("path", { class: "none", d: `M0 ${BASE}H24` });
  const shape = svg("path", { class: name, d: SHAPES[name](2, 20) });
  return el("span.states.sample", {}, svg("svg", box, line, shape));
}

export const axis = (now) => [`${duration(windowOf(now) / 1000)} ago`, "now"];
