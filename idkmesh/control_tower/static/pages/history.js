// A gauge: a figure against its limit, and its last minute as a line.
//
// Laws: what was not measured is a hole in the line, never a zero; the same is said in words beside the picture.

import { el, setAttribute, setText, svg } from "../dom.js";
import { number } from "../format.js";

const WIDTH = 240;
const HEIGHT = 48;
const MINUTE = 60;

export class Gauge {
  #level = el("span.level");
  #figure = el("b");
  #limit = el("span");
  #fill = el("div.fill");
  #line = svg("path", { class: "line" });
  #area = svg("path", { class: "area" });
  #dot = svg("path", { class: "dot" }); // a line without length: its ends stay round in a stretched picture
  #words = el("p.note");
  #track;

  constructor(name, note) {
    this.#track = el("div.track", { role: "meter", "aria-label": name, "aria-valuemin": 0 }, this.#fill);
    const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" };
    const base = svg("path", { class: "base", d: `M0 ${HEIGHT - 1}H${WIDTH}` });
    const picture = svg(
      "svg",
      { ...box, class: "history", "aria-hidden": "true" },
      base,
      this.#area,
      this.#line,
      this.#dot,
    );
    this.element = el(
      "div.gauge.card",
      {},
      el("h3", { title: note }, name, this.#level),
      el("p.figure", {}, this.#figure, this.#limit),
      this.#track,
      picture,
      this.#words,
    );
  }

  // `samples` are numbers or null, the last is now.
  show(used, limit, samples) {
    const share = limit > 0 ? Math.min(used / limit, 1) : 1;
    const level = share >= 1 ? "full" : share >= 0.8 ? "high" : "";
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
    this.#draw(samples);
  }

  #draw(samples) {
    const measured = samples.filter((value) => value !== null);
    const peak = Math.max(...measured, 0);
    const top = Math.max(peak * 1.15, 1);
    const runs = runsOf(samples, top);
    setAttribute(this.#line, "d", runs.map((run) => `M${run.map((point) => point.join(" ")).join("L")}`).join(""));
    setAttribute(this.#area, "d", runs.map(area).join(""));
    const last = samples.at(-1) === null ? null : runs.at(-1)?.at(-1);
    setAttribute(this.#dot, "d", last ? `M${last.join(" ")}h0` : "");
    const missed = samples.length - measured.length;
    const gap = missed > 0 ? `, ${missed} s not measured` : "";
    setText(this.#words, `Last minute: at most ${number(peak)}${gap}`);
  }
}

function runsOf(samples, top) {
  const runs = [];
  let run = null;
  const start = MINUTE - samples.length;
  samples.forEach((value, index) => {
    if (value === null) {
      run = null;
      return;
    }
    if (!run) {
      run = [];
      runs.push(run);
    }
    const x = ((start + index) / (MINUTE - 1)) * (WIDTH - 6) + 1;
    run.push([x.toFixed(1), (HEIGHT - 4 - (value / top) * (HEIGHT - 10)).toFixed(1)]);
  });
  return runs;
}

function area(run) {
  const points = run.map((point) => point.join(" ")).join("L");
  return `M${run[0][0]} ${HEIGHT - 1}L${points}L${run.at(-1)[0]} ${HEIGHT - 1}Z`;
}
