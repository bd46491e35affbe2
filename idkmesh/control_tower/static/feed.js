// The events that this tab keeps, newest first, without a hole.
//
// Laws: at most MOST are kept, the oldest go; one epoch at a time; each event once, in the order of its sequence; a
// hole is never shown: what does not join the rest is fetched again.

import { ask } from "./api.js";
import { backoff } from "./backoff.js";
import { instant } from "./state.js";

export const MOST = 2000;
const PAGE = 100;

const LIST = "/api/v1/events";
const listeners = new Set();
const known = new Map(); // id: event

export const feed = {
  events: [], // newest first
  epoch: "",
  loaded: false, // the newest page has come once
  loadedAt: 0, // and when, see `instant`
  ended: false, // the oldest event of the store is here
  trouble: "", // why the list could not be read
  available: true, // the service has events at all
  busy: false,
};

let position = ""; // where the stream has come to, in words of the service: EPOCH.SEQUENCE
let retry = 0;
let round = 0; // grows when all is forgotten: what was asked for before is not wanted any more

export function onFeed(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const tell = () => listeners.forEach((listener) => listener());

export const kept = (id) => known.get(id);

export const sequence = (event) => Number(event.sequence);

export const lastPosition = () => position;

export function setPosition(id) {
  position = id;
}

// Whether events up to there exist that this tab should have and has not.
export function isBehind(there) {
  if (!there || !feed.loaded || feed.busy || feed.trouble) {
    return false;
  }
  return there.slice(0, 16) !== position.slice(0, 16) || Number(there.slice(17)) > Number(position.slice(17));
}

export function clear() {
  clearTimeout(retry);
  tries = 0;
  round += 1;
  known.clear();
  Object.assign(feed, { events: [], epoch: "", loaded: false, ended: false });
  position = "";
  tell();
}

// Takes events as they are committed. Returns false where some are missing before them.
export function addLive(events) {
  const newest = feed.events[0];
  const joined = !newest || (events.every((event) => event.epoch === feed.epoch) && joins(events, sequence(newest)));
  if (!joined) {
    return false;
  }
  add(events);
  return true;
}

function joins(events, from) {
  let last = from;
  return events.every((event) => {
    const next = sequence(event);
    const fits = next <= last + 1;
    last = Math.max(last, next);
    return fits;
  });
}

function add(events) {
  for (const event of events) {
    if (feed.epoch && event.epoch !== feed.epoch) {
      known.clear();
      feed.ended = false;
    }
    feed.epoch = event.epoch;
    known.set(event.id, event);
  }
  const sorted = [...known.values()].sort((one, other) => sequence(other) - sequence(one));
  for (const gone of sorted.splice(MOST)) {
    known.delete(gone.id);
    feed.ended = false;
  }
  feed.events = sorted;
  const newest = sorted[0];
  if (newest && (!position.startsWith(newest.epoch) || Number(position.slice(17)) < sequence(newest))) {
    position = newest.id;
  }
  tell();
}

// Reads the newest page, and keeps what was there if it joins. Tries again by itself while it is refused or lost.
export async function load() {
  clearTimeout(retry);
  await reading(async () => {
    const answer = await page(`${LIST}?order=desc&limit=${PAGE}`);
    if (answer) {
      const oldest = answer.items.at(-1);
      const newest = feed.events[0];
      if (newest && oldest && (oldest.epoch !== newest.epoch || sequence(oldest) > sequence(newest) + 1)) {
        known.clear();
      }
      feed.loaded = true;
      feed.loadedAt = instant();
      feed.ended = feed.ended || answer.page.next_cursor === null;
      add(answer.items);
    }
  }, load);
}

// Reads the page before the oldest event that is kept.
export async function loadOlder() {
  const oldest = feed.events.at(-1);
  if (oldest && !feed.busy && !feed.ended && feed.events.length < MOST) {
    await reading(async () => {
      const answer = await page(`${LIST}?order=desc&limit=200&cursor=${oldest.id}`);
      if (answer) {
        feed.ended = answer.page.next_cursor === null || answer.items.length === 0;
        add(answer.items.slice(0, MOST - feed.events.length));
      }
    });
  }
}

// One event by its id: from what is kept, else from the service. Returns {event} or {trouble, again, asked}: whether
// another try may find it, and after how many seconds at least.
export async function find(id) {
  if (known.has(id)) {
    return { event: known.get(id) };
  }
  const match = /^([0-9a-f]{16})\.(\d{1,12})$/.exec(id);
  if (!match || Number(match[2]) < 1) {
    return { trouble: "This is no id of an event. An id is 16 hexadecimal digits, a dot and a number." };
  }
  const before = `${match[1]}.${String(Number(match[2]) - 1).padStart(12, "0")}`;
  try {
    const answer = await ask(`${LIST}?limit=1&cursor=${before}`);
    const [event] = answer.body?.items ?? [];
    if (event && event.epoch === match[1] && sequence(event) === Number(match[2])) {
      return { event };
    }
    const again = answer.status >= 500 || answer.status === 401;
    return { trouble: lookupTrouble(answer), again, asked: answer.retryAfter };
  } catch {
    return { trouble: "The service does not answer. The event is read as soon as it does.", again: true };
  }
}

function lookupTrouble({ ok, status, code, message }) {
  if (status === 410) {
    return "This event is no longer kept: retention has given it up.";
  }
  if (status === 400) {
    return "This event is of another store, or is not there yet.";
  }
  return ok ? "There is no event with this id." : `The service answered ${status} ${code}: ${message}`;
}

async function page(path) {
  const mine = round;
  const answer = await ask(path);
  if (mine !== round) {
    return null;
  }
  feed.available = answer.status !== 404;
  if (answer.ok && Array.isArray(answer.body?.items)) {
    return answer.body;
  }
  const error = new Error(`The service answered ${answer.status} ${answer.code}: ${answer.message}`);
  error.final = [401, 404].includes(answer.status);
  error.retryAfter = answer.retryAfter;
  throw error;
}

let tries = 0;

async function reading(work, again) {
  feed.busy = true;
  tell();
  try {
    await work();
    feed.trouble = "";
    tries = 0;
  } catch (error) {
    feed.trouble = error.final === undefined ? "The service does not answer." : error.message;
    if (again && !error.final) {
      tries += 1;
      retry = setTimeout(again, backoff(tries, error.retryAfter));
    }
  }
  feed.busy = false;
  tell();
}
