// A gauge: a figure against its limit, and its last minute as a line.
//
// Laws: each sample stands at its time; a second that was not measured is a hole in the line, never a zero; the same is
// said in words beside the picture; what was between two samples is told by the service, or not claimed.

import { el, setAttribute, setText, svg } from "../dom.js";
import { number } from "../format.js";
import { HIGH, MINUTE, refusedWords } from "./overview_parts.js";

const WIDTH = 240;
const HEIGHT = 48;
const SECOND = 1000; // ms

export class Gauge {
  #level = el("span.level");
  #figure = el("b");
  #limit = el("span");
  #fill = el("div.fill");
  #line = svg("path", { class: "line" });
  #area = svg("path", { class: "area" });
  #dot = svg("path", { class: "dot" }); // a line without length: its ends stay round in a stretched picture
  #peak = svg("path", { class: "peak" });
  #top = el("span.top", { "aria-hidden": "true" }); // what the height of the picture stands for
  #words = el("p.note");
  #refused = el("p.note.turned-away", { hidden: true });
  #track;

  constructor(name, note) {
    this.#track = el("div.track", { role: "meter", "aria-label": name, "aria-valuemin": 0 }, this.#fill);
    const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" };
    const base = svg("path", { class: "base", d: `M0 ${HEIGHT - 1}H${WIDTH}` });
    const picture = svg(
      "svg",
      { ...box, class: "history", "aria-hidden": "true" },
      base,
      this.#peak,
      this.#area,
      this.#line,
      this.#dot,
    );
    this.element = el(
      "div.gauge.card",
      {},
      el("h3", {}, name, this.#level),
      el("p.figure", {}, this.#figure, this.#limit),
      this.#track,
      el("div.picture", {}, picture, this.#top),
      this.#words,
      el("p.note", {}, note),
      this.#refused,
    );
  }

  // `samples` are [{at, value}], oldest first; a value that the service did not tell is null. So is `peak`, the highest of
  // the last minute. `refused` are requests that found no room in it.
  show(used, limit, samples, now, { peak = null, refused = 0 } = {}) {
    const share = limit > 0 ? Math.min(used / limit, 1) : 1;
    const level = share >= 1 ? "full" : share >= HIGH ? "high" : "";
    setAttribute(this.element, "data-level", level);
    setText(this.#level, { full: "full", high: "nearly full" }[level] ?? "");
    setText(this.#figure, number(used));
    setText(this.#limit, ` of ${number(limit)}`);
    setAttribute(this.#track, "aria-valuemax", limit);
    setAttribute(this.#track, "aria-valuenow", Math.min(used, limit));
    setAttribute(this.#track, "aria-valuetext", `${number(used)} of ${number(limit)}`);
    const width = `${(share * 100).toFixed(2)}%`;
    if (this.#fill.style.width !== width) {
      this.#fill.style.width = width;
    }
    this.#fill.toggleAttribute("data-none", used === 0); // however little is used has a width, nothing has none
    this.#refused.hidden = refused === 0;
    setText(this.#refused, refusedWords(refused));
    this.#draw(samples, now, peak);
  }

  #draw(samples, now, told) {
    const { runs, missing, current } = placed(samples, now);
    // What was told is of the minute before the telling: without a new answer the samples alone are of this one.
    const peak = Math.max(current ? told : 0, ...runs.flat().map(([, value]) => value));
    const top = Math.max(peak, 1);
    const drawn = runs.map((run) => points(run, now, top));
    setAttribute(this.#line, "d", drawn.map(line).join(""));
    setAttribute(this.#area, "d", drawn.map(area).join(""));
    setAttribute(this.#peak, "d", `M0 ${height(top, top).toFixed(1)}H${WIDTH}`);
    setAttribute(this.#dot, "d", current ? `M${drawn.at(-1).at(-1).join(" ")}h0` : "");
    setText(this.#top, number(top));
    const gap = missing > 0 ? `, ${missing} s not measured` : "";
    const seen = told === null ? ", at each second's look" : "";
    setText(this.#words, `Last minute${seen}: at most ${number(peak)}${gap}`);
  }
}

// What the samples of the last minute look like at `now`: the runs between two holes, and the seconds without a sample.
// Before the first sample the page was not there: nothing is missing then.
export function placed(samples, now) {
  const there = samples.filter(({ at, value }) => value !== null && now - at <= MINUTE);
  const runs = [];
  let missing = 0;
  let last = null;
  const begins = now - MINUTE;
  const before = samples.findLast(({ at }) => now - at > MINUTE)?.at ?? null;
  for (const { at, value } of there) {
    const from = last ?? (before === null ? null : Math.max(before, begins));
    const hole = from === null ? 0 : Math.max(Math.round((at - from) / SECOND) - 1, 0);
    missing += hole;
    if (last === null || hole > 0) {
      runs.push([]);
    }
    runs.at(-1).push([at, value]);
    last = at;
  }
  const silent = last === null ? 0 : Math.max(Math.floor((now - last) / SECOND) - 1, 0);
  return { runs, missing: missing + silent, current: last !== null && silent === 0 };
}

function points(run, now, top) {
  return run.map(([at, value]) => [
    (1 + (1 - (now - at) / MINUTE) * (WIDTH - 6)).toFixed(1),
    height(value, top).toFixed(1),
  ]);
}

const height = (value, top) => HEIGHT - 4 - (value / top) * (HEIGHT - 10);

// A lone sample is a line without length, whose round ends make a dot.
function line(run) {
  return run.length === 1 ? `M${run[0].join(" ")}h0` : `M${run.map((point) => point.join(" ")).join("L")}`;
}

function area(run) {
  const upper = run.map((point) => point.join(" ")).join("L");
  return `M${run[0][0]} ${HEIGHT - 1}L${upper}L${run.at(-1)[0]} ${HEIGHT - 1}Z`;
}
