// What this tab knows of the service, and since when. Everything that is shown is made from this.
//
// Laws: it is changed by `change` alone; instants are of this tab's performance.now(), never of a wall clock;
// listeners run once for all changes of one turn.

export const STALE = 2500; // ms without a status: two beats were missed
const MINUTE = 60; // samples of history

export const state = {
  service: "connecting", // a name of STATES in words.js
  words: "", // the service's own words, where STATES has none that fit
  status: null, // the last status document
  statusAt: 0, // when it came
  ready: null, // the last answer of /readyz: {status, failing, warnings, code}
  alive: null, // what /healthz said: true, false, or null for no answer
  stream: { phase: "connecting", why: "", until: 0, at: 0 }, // or "live", "waiting"; `at`: the last byte, 0 for none
  notes: [], // what happened and stays true: [{id, text}]
  samples: [], // one for each beat: {in_flight, connections, sse_clients} or null for a missed one
  leader: false,
};

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

export function addSample(usage) {
  change({ samples: [...state.samples.slice(1 - MINUTE), usage ?? null] });
}

export function addNote(id, text) {
  change({ notes: [...state.notes.filter((note) => note.id !== id), { id, text }].slice(-4) });
}

export function removeNote(id) {
  change({ notes: state.notes.filter((note) => note.id !== id) });
}

// Milliseconds since the status came; null before the first.
export function statusAge(now = performance.now()) {
  return state.status ? now - state.statusAt : null;
}

export function isStale() {
  const age = statusAge();
  return age !== null && age > STALE;
}

// The longest silence of a stream that lives, in ms: two heartbeats and a little for the way.
export function silence() {
  const heartbeat = state.status?.operations?.limits?.sse_heartbeat_seconds ?? 15;
  return heartbeat * 2000 + 500;
}
