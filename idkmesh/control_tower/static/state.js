// What this tab knows of the service, and since when. Everything that is shown is made from this.
//
// Laws: it is changed by `change` alone; instants are those of `instant`, never of a wall clock; listeners run once for
// all changes of one turn.

export const STALE = 2500; // ms without a status: two beats were missed
const MINUTE = 60_000; // ms of history
const ASLEEP = 2000; // ms by which the wall clock runs ahead before the machine counts as having slept

// Names of STATES in which the status itself came, and the service takes requests.
export const ANSWERS = new Set(["ready", "not_ready", "starting", "stalled"]);

export const state = {
  service: "connecting", // a name of STATES in words.js
  words: "", // the service's own words, where STATES has none that fit
  status: null, // the last status document
  statusAt: 0, // when it came
  ready: null, // the last answer of /readyz: {ok, status, failing, failingTotal, warnings, ...}
  alive: null, // what /healthz said: true, false, or null for no answer
  stream: { phase: "connecting", why: "", until: 0, at: 0 }, // or "live", "waiting"; `at`: the last byte, 0 for none
  notes: [], // what happened and stays true: [{id, text}]
  samples: [], // of the last minute, oldest first: [{at, usage, peak}], those of the status; `peak` is of its last second
  leader: false,
};

let slept = 0;
let ahead = Date.now() - performance.now();

// Milliseconds that only grow. performance.now() stands still while the machine sleeps, and what is shown grows old
// nevertheless; a wall clock that is set forward makes it look older than it is, which does no harm.
export function instant() {
  const now = Date.now() - performance.now();
  if (now - ahead > ASLEEP) {
    slept += now - ahead;
  }
  ahead = now;
  return performance.now() + slept;
}

const listeners = new Set();
let due = false;

export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function change(patch) {
  Object.assign(state, patch);
  if (!due) {
    due = true;
    queueMicrotask(() => {
      due = false;
      for (const listener of [...listeners]) {
        listener(state);
      }
    });
  }
}

// A beat without an answer leaves nothing: the time between two samples says what is missing.
export function addSample({ usage, peaks }) {
  const at = instant();
  change({ samples: [...state.samples.filter((sample) => at - sample.at <= MINUTE), { at, usage, peak: peaks?.last_second }] });
}

export function addNote(id, text) {
  change({ notes: [...state.notes.filter((note) => note.id !== id), { id, text }].slice(-4) });
}

export function removeNote(id) {
  change({ notes: state.notes.filter((note) => note.id !== id) });
}

// Milliseconds since the status came; null before the first.
export function statusAge(now = instant()) {
  return state.status ? now - state.statusAt : null;
}

export function isStale() {
  const age = statusAge();
  return age !== null && age > STALE;
}

// How long a stream is left open, in ms.
export const lifetime = () => (state.status?.operations?.limits?.sse_max_stream_seconds ?? 1) * 1000;

// The longest silence of a stream that lives, in ms: two heartbeats and a little for the way.
export function silence() {
  const heartbeat = state.status?.operations?.limits?.sse_heartbeat_seconds ?? 15;
  return heartbeat * 2000 + 500;
}
