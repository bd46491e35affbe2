// The transitions of all releases since the tower was started, for an hour at most: read from the stored events, and
// gone on with from the stream.
//
// Laws: what is kept has no hole: where the feed has let go of events that were not taken over, all is read again; how
// far it reaches back is known; what the stream did not bring is a hole until it does.

import { ask } from "../api.js";
import { backoff } from "../backoff.js";
import { feed, onFeed, sequence } from "../feed.js";
import { STALE, state } from "../state.js";
import { evidenceOf, OMITTED, TYPES } from "./topology_spans.js";

export const SPAN = 3_600_000; // ms
const MOST = 5000; // events that are kept
const PAGES = 5; // of each type, 200 events each
const SOURCE = "/control-tower";
const LIST = "/api/v1/events";

export class History {
  holes = []; // [{from, to}], see topology_spans.js
  version = 0; // grows with each change
  read = false;
  trouble = ""; // why nothing newer was read
  #events = new Map(); // id: event
  #byTarget = new Map();
  #epoch = "";
  #until = 0; // the sequence up to which nothing is missing
  #limit = 0; // the time before which events of a type may be missing, in ms
  #started = "";
  #busy = false;
  #open = true;
  #tries = 0;
  #retry = 0;
  #leave = onFeed(() => this.look());

  close() {
    this.#open = false;
    clearTimeout(this.#retry);
    this.#leave();
  }

  // The evidence of one release, oldest first.
  of(target) {
    return this.#byTarget.get(target) ?? [];
  }

  // The time from which on nothing is missing but holes, and the state of every release then: none was observed when
  // the tower was started.
  reach(now) {
    const started = new Date(state.status?.started_at).getTime() || now;
    const least = Math.max(started, now - SPAN, this.#limit);
    return { since: Math.min(least, now), first: least === started ? "none" : null };
  }

  // What the stream has not brought so far, from its last byte on; null while it is open. `at` is the instant of `now`.
  gap({ now, at }) {
    const { phase, at: last } = state.stream;
    const silent = at - Math.max(last, feed.loadedAt);
    return phase === "live" || silent < STALE ? null : { from: now - silent, to: Infinity };
  }

  // Reads what is missing. To be called again and again: a service that was started again begins a history of its own.
  look() {
    const { started_at: started = "" } = state.status ?? {};
    if (!this.#open || !started || !feed.loaded || this.#busy || this.#retry) {
      return;
    }
    const oldest = feed.events.at(-1);
    const holed = oldest && sequence(oldest) > this.#until + 1;
    if (!this.read || feed.epoch !== this.#epoch || started !== this.#started || holed) {
      this.#load(started);
    } else if (feed.events.length > 0 && sequence(feed.events[0]) > this.#until) {
      this.#take();
    }
  }

  // The position is noted before anything is asked: what comes meanwhile is in the feed.
  async #load(started) {
    this.#busy = true;
    const epoch = feed.epoch;
    const until = feed.events.length > 0 ? sequence(feed.events[0]) : 0;
    try {
      const { events, limit } = await stored();
      this.#events = new Map(events.map((event) => [event.id, event]));
      [this.#epoch, this.#until, this.#limit, this.#started] = [epoch, until, limit, started];
      this.read = true;
      this.trouble = "";
      this.#tries = 0;
      this.#index();
    } catch (error) {
      this.#tries += 1;
      this.trouble = error instanceof Refused ? error.message : "The service does not answer.";
      this.#retry = setTimeout(() => this.#again(), backoff(this.#tries, error.retryAfter ?? 0));
    }
    this.#busy = false;
    this.look();
  }

  #again() {
    this.#retry = 0;
    this.look();
  }

  #take() {
    const from = this.#until;
    this.#until = sequence(feed.events[0]);
    const fresh = feed.events.filter((event) => sequence(event) > from && isOurs(event));
    if (fresh.length > 0) {
      for (const event of fresh) {
        this.#events.set(event.id, event);
      }
      this.#index();
    }
  }

  // The oldest go, and with them what is known of their time.
  #index() {
    const events = [...this.#events.values()].sort((one, other) => sequence(one) - sequence(other));
    const gone = events.splice(0, Math.max(events.length - MOST, 0));
    if (gone.length > 0) {
      this.#limit = Math.max(this.#limit, timeOf(gone.at(-1)));
      this.#events = new Map(events.map((event) => [event.id, event]));
    }
    this.#byTarget = new Map();
    this.holes = [];
    events.forEach((event, index) => {
      const one = evidenceOf(event);
      if (one && one.at >= this.#limit) {
        if (!this.#byTarget.has(event.subject)) {
          this.#byTarget.set(event.subject, []);
        }
        this.#byTarget.get(event.subject).push(one);
      } else if (event.type === OMITTED) {
        this.holes.push(holeOf(event, events[index - 1]));
      }
    });
    this.version += 1;
  }
}

const timeOf = ({ time }) => new Date(time).getTime() || 0;
const isOurs = ({ type, source }) => source === SOURCE && TYPES.includes(type);

// The changes that are told come first, so those that are not came after the last one before (RT-10.3).
function holeOf(event, before) {
  const to = timeOf(event);
  const seconds = Number(event.data?.seconds) || 0;
  return { from: Math.max(before ? timeOf(before) : 0, to - seconds * 1000), to };
}

class Refused extends Error {}

// {events, limit}: those of each type, and the time before which some may be missing.
async function stored() {
  const [oldest] = (await page("limit=1")).items;
  let limit = !oldest || sequence(oldest) === 1 ? 0 : timeOf(oldest); // before the first of a store there was none
  const events = [];
  const least = (new Date(state.status?.generated_at).getTime() || Date.now()) - SPAN;
  for (const type of TYPES) {
    let cursor = "";
    for (let pages = 1; ; pages += 1) {
      const found = await page(`order=desc&limit=200&type=${type}&source=${encodeURIComponent(SOURCE)}${cursor}`);
      const { items } = found;
      events.push(...items);
      const last = items.length > 0 ? timeOf(items.at(-1)) : least;
      if (found.page.next_cursor === null || last < least) {
        break;
      }
      if (pages === PAGES) {
        limit = Math.max(limit, last);
        break;
      }
      cursor = `&cursor=${found.page.next_cursor}`;
    }
  }
  return { events, limit };
}

async function page(query) {
  const answer = await ask(`${LIST}?${query}`);
  if (answer.ok && Array.isArray(answer.body?.items)) {
    return answer.body;
  }
  const error = new Refused(`The service answered ${answer.status} ${answer.code}: ${answer.message}`);
  error.retryAfter = answer.retryAfter;
  throw error;
}
