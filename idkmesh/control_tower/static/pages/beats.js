// The recent results of one dependency as a strip that is walked with the arrow keys, the newest at its right end.
//
// Laws: outcomes differ by shape before colour: ok stands on the line, failed hangs from it, what could not be run is a
// box around it; a dashed rule is a time in which nothing was known, a dashed box at the end one that goes on; the beat
// that is walked to stays the same one while others arrive, so nothing is read out by itself; each beat in words beside.

import { el, setAttribute, setText, svg } from "../dom.js";
import { clock, dateTime, duration, number, shortened, visible } from "../format.js";
import { picked } from "../words.js";

const KEPT = 60;
const SLOT = 6; // units of the picture, a beat each; one more at the end is for what has expired
const WIDTH = (KEPT + 1) * SLOT;
const UP = 22; // the highest beat that is ok, and the deepest that failed
const DOWN = 15;
const BASE = UP + 1;
const HEIGHT = BASE + DOWN + 1;
const QUICKEST = 0.1; // ms that are drawn as nothing; the timeout is drawn full
const SLACK = 50; // ms: labels of a wall clock are no measure
const JUMP = 10;

const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -JUMP, PageUp: JUMP };
const OUTCOMES = { ok: "ok", failed: "failed", could_not_run: "could not be run" };

export class Strip {
  readout = el("p.readout");
  element;
  #paths = Object.fromEntries(
    ["base", "gap", "ok", "failed", "unrun", "expired"].map((name) => [name, svg("path", { class: name })]),
  );
  #cursor = svg("rect", { class: "cursor", width: SLOT, height: HEIGHT, y: 0 });
  #results = [];
  #gaps = [];
  #chosen = null; // the time of the beat that was walked to
  #pointed = null; // that of the one under the pointer

  constructor(name) {
    const picture = svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      this.#cursor,
      ...Object.values(this.#paths),
    );
    // A slider over time is what a screen reader gives the arrow keys to, and reads the words of with each step.
    this.element = el(
      "div.strip",
      {
        role: "slider",
        tabIndex: 0,
        "aria-label": `Beats of ${name}`,
        "aria-roledescription": "strip of beats",
        "aria-readonly": "true",
        onkeydown: (event) => this.#key(event),
        onpointermove: (event) => this.#point(this.#under(event)),
        onpointerleave: () => this.#point(null),
        onclick: (event) => this.#choose(this.#under(event)),
        onblur: () => this.#choose(null),
      },
      picture,
    );
  }

  show({ results, cache_ms: life, timeout_ms: timeout, reason }) {
    this.#results = results.slice(-KEPT);
    this.#gaps = this.#results.map((result, index) => gapBefore(this.#results[index - 1], result, life));
    this.element.hidden = this.#results.length === 0;
    this.#draw(timeout, reason === "stale");
    this.#tell();
  }

  #draw(timeout, expired) {
    const drawn = { ok: "", failed: "", unrun: "", gap: "" };
    this.#results.forEach((result, index) => {
      const x = this.#x(index);
      drawn[result.outcome === "could_not_run" ? "unrun" : result.outcome === "ok" ? "ok" : "failed"] += shape(
        x,
        result,
        timeout,
      );
      drawn.gap += this.#gaps[index] ? `M${x} 0V${HEIGHT}` : "";
    });
    for (const [name, path] of Object.entries(drawn)) {
      setAttribute(this.#paths[name], "d", path);
    }
    setAttribute(this.#paths.base, "d", `M0 ${BASE}H${WIDTH - SLOT}`);
    setAttribute(this.#paths.expired, "d", expired ? `M${WIDTH - SLOT + 1} ${BASE - 9}h4v18h-4z` : "");
  }

  // The left edge of a beat. The newest stands beside the slot for what has expired.
  #x(index) {
    return WIDTH - SLOT * (this.#results.length - index + 1);
  }

  #tell() {
    const last = this.#results.length - 1;
    const at = this.#index(this.#pointed ?? this.#chosen);
    const walked = this.#index(this.#chosen);
    this.#cursor.toggleAttribute("data-on", this.#pointed !== null || this.#chosen !== null);
    setAttribute(this.#cursor, "x", at < 0 ? 0 : this.#x(at));
    if (last < 0) {
      setText(this.readout, "No result yet.");
      return;
    }
    setAttribute(this.element, "aria-valuemin", instantOf(this.#results[0]));
    setAttribute(this.element, "aria-valuemax", instantOf(this.#results[last]));
    setAttribute(this.element, "aria-valuenow", instantOf(this.#results[walked]));
    setAttribute(this.element, "aria-valuetext", this.#words(walked));
    setText(this.readout, this.#words(at));
  }

  // Where a beat stands now: the oldest where it is kept no more, the newest where none was walked to.
  #index(time) {
    if (time === null) {
      return this.#results.length - 1;
    }
    return Math.max(
      this.#results.findIndex((result) => result.time === time),
      0,
    );
  }

  #words(index) {
    const gap = this.#gaps[index];
    return beatWords(this.#results[index]) + (gap ? `, after ${duration(gap / 1000)} with nothing known` : "");
  }

  #key(event) {
    const last = this.#results.length - 1;
    const to = { Home: 0, End: last }[event.key] ?? this.#index(this.#chosen) + (STEPS[event.key] ?? Number.NaN);
    if (Number.isNaN(to) || event.ctrlKey || event.altKey || event.metaKey) {
      return;
    }
    event.preventDefault();
    this.#pointed = null;
    this.#choose(Math.min(Math.max(to, 0), last));
  }

  #under({ clientX }) {
    const { left, width } = this.element.getBoundingClientRect();
    const slot = Math.floor(((clientX - left) / width) * (KEPT + 1));
    const index = slot - (KEPT - this.#results.length);
    return Math.min(Math.max(index, 0), this.#results.length - 1);
  }

  #choose(index) {
    this.#chosen = this.#results[index]?.time ?? null;
    this.#tell();
  }

  #point(index) {
    this.#pointed = this.#results[index]?.time ?? null;
    this.#tell();
  }
}

const instantOf = ({ time }) => new Date(time).getTime() || 0;

// Milliseconds before a result came in which the one before had expired; 0 where it had not.
export function gapBefore(before, result, life) {
  if (!before) {
    return 0;
  }
  const gap = instantOf(result) + result.latency_ms - (instantOf(before) + before.latency_ms + life);
  return gap > SLACK ? gap : 0;
}

// Each tenfold time is a step of its own: one millisecond or ten is told apart though the timeout is a second.
function share(latency, timeout) {
  const range = Math.log(Math.max(timeout, 1) / QUICKEST);
  return Math.min(Math.max(Math.log(Math.max(latency, QUICKEST) / QUICKEST) / range, 0), 1);
}

function shape(x, { outcome, latency_ms: latency }, timeout) {
  if (outcome === "could_not_run") {
    return `M${x + 1.5} ${BASE - 5}h3v10h-3z`;
  }
  const part = share(latency, timeout);
  const height = (outcome === "ok" ? -(2 + part * (UP - 2)) : 7 + part * (DOWN - 7)).toFixed(1);
  return `M${x + 1} ${BASE}v${height}h4V${BASE}z`;
}

export function latencyWords(ms) {
  if (ms >= 1000) {
    return `${number(Math.round(ms / 10) / 100)} s`;
  }
  return `${number(ms < 10 ? Math.round(ms * 100) / 100 : Math.round(ms))} ms`;
}

export function beatWords({ time, outcome, latency_ms: latency, detail }) {
  const today = new Date(time).toDateString() === new Date().toDateString();
  const when = today ? clock(time) : dateTime(time);
  const what = picked(OUTCOMES, outcome, visible(String(outcome)));
  return `${when} ${what}, ${latencyWords(latency)}: ${visible(shortened(String(detail), 200))}`;
}
