// Binds the tab to the service: what the leader learns is shown here and told to the other tabs.
//
// Laws: every tab shows the same, a leader's from the service and a follower's from the leader; a token that was
// refused is forgotten in all tabs; whoever begins to lead goes on where the last leader stopped.

import { onRefused } from "./api.js";
import { addLive, clear, isBehind, lastPosition, load, setPosition } from "./feed.js";
import { clockSeconds } from "./format.js";
import { Poll } from "./poll.js";
import { forget, isToken, keep, token } from "./session.js";
import { addNote, addSample, ANSWERS, change, instant, lifetime, silence, state } from "./state.js";
import { EventStream } from "./stream.js";
import { Tabs } from "./tabs.js";

let poll = null;
let stream = null;
let proven = ""; // the token that the service has accepted

const tabs = new Tabs({
  lead() {
    change({ leader: true });
    poll = new Poll(learned);
    stream = new EventStream({
      token,
      silence,
      lifetime,
      position: lastPosition,
      onEvents: (events) => {
        tabs.send({ kind: "events", events });
        took(events);
      },
      onOpen: opened,
      onReset: (why) => toAll({ kind: "reset", why }),
      onPhase: phase,
      onUnauthorized: (sent) => toAll({ kind: "forget", sent }),
    });
    poll.beat();
    stream.run();
  },
  follow() {
    change({ leader: false });
    poll.stop();
    stream.stop();
  },
  message: heard,
});

onRefused((sent) => toAll({ kind: "forget", sent }));

// Begins, once there is a token.
export function connect() {
  tabs.stand();
  tabs.send({ kind: "hello" });
  load();
}

export function askTabsForToken() {
  tabs.send({ kind: "token?" });
}

// A new token, from the address or from the person.
export function unlocked() {
  change({ service: "connecting", words: "" });
  tabs.send({ kind: "token", token: token() });
  connect();
  askNow();
}

export function askNow() {
  if (tabs.leads) {
    poll.beat();
    stream.nudge();
  }
}

function toAll(message) {
  tabs.send(message);
  heard(message);
}

function heard(message) {
  const { kind } = message;
  if (kind === "state") {
    told(message);
  } else if (kind === "events") {
    took(message.events);
  } else if (kind === "hello" && tabs.leads) {
    if (proven && proven === token()) {
      tabs.send({ kind: "token", token: proven, proven: true }); // who came may have kept one of before a restart
    }
    share();
  } else if (kind === "token?" && token() && state.service !== "locked") {
    tabs.send({ kind: "token", token: token() });
  } else if (kind === "token" && isToken(message.token)) {
    given(message);
  } else if (kind === "forget" && forget(message.sent)) {
    tabs.withdraw();
    clear();
    change({ service: "locked", words: "", status: null, samples: [], ready: null, alive: null });
    askTabsForToken(); // another one may have been given the new link
  } else if (kind === "reset") {
    reset(message.why);
  } else if (kind === "note") {
    addNote(message.id, message.text);
  } else if (kind === "reload") {
    setPosition(message.position || lastPosition());
    load();
  }
}

// Another tab has a token: taken where there is none, or where the service has accepted it and ours is another.
function given(message) {
  if (!token()) {
    keep(message.token);
    change({ service: "connecting", words: "" });
    connect();
  } else if (message.proven && message.token !== token()) {
    keep(message.token);
    load();
  }
}

function took(events) {
  if (!addLive(events)) {
    load();
  }
}

function opened({ position, resumed }) {
  if (!resumed) {
    toAll({ kind: "reload", position });
  }
}

const RESETS = {
  cursor_expired:
    "While this page was away, events were given up by retention: those between then and now are not shown.",
  invalid_last_event_id: "The event store was replaced. What was shown before is not in the new one.",
};

function reset(why) {
  clear();
  addNote(why, `${RESETS[why]} (${clockSeconds(new Date())})`);
  load();
}

function phase(stream) {
  const same = stream.phase === state.stream.phase && stream.phase === "live";
  change({ stream: { ...stream, at: stream.at || state.stream.at } });
  if (!same) {
    share();
  }
}

// What the poll has learned.
function learned({ service, words, status, ready, alive, sent }) {
  if (service === "locked") {
    toAll({ kind: "forget", sent });
    return;
  }
  if (status && sent !== proven) {
    proven = sent;
    tabs.send({ kind: "token", token: sent, proven: true });
  }
  const before = state.status;
  const back = status && !ANSWERS.has(state.service);
  change({ service, words, ready, alive, ...(status ? { status, statusAt: instant() } : {}) });
  if (before && status && before.started_at !== status.started_at) {
    change({ samples: [] });
    const text = `The service was started again at ${clockSeconds(status.started_at)}. Its counters began anew.`;
    toAll({ kind: "note", id: "restart", text });
  }
  if (status?.operations.usage) {
    addSample(status.operations);
  }
  if (back && state.stream.phase === "waiting" && state.stream.why !== "too_many_streams") {
    stream.nudge();
  }
  share();
}

// Tells the other tabs everything. Instants leave as ages: each tab has a clock of its own.
function share() {
  const now = instant();
  const { service, words, status, statusAt, ready, alive } = state;
  const samples = state.samples.map(({ at, ...told }) => ({ at: now - at, ...told }));
  const { at, until } = state.stream;
  const moved = { ...state.stream, at: at && now - at, until: until - now };
  const position = lastPosition();
  tabs.send({
    kind: "state",
    service,
    words,
    status,
    age: now - statusAt,
    ready,
    alive,
    samples,
    stream: moved,
    position,
  });
}

function told({ service, words, status, age, ready, alive, samples: taken, stream: moved, position }) {
  if (tabs.leads || !token()) {
    return;
  }
  const now = instant();
  const samples = taken.map(({ at, ...rest }) => ({ at: now - at, ...rest }));
  const stream = { ...moved, at: moved.at && now - moved.at, until: now + moved.until };
  change({ service, words, status, statusAt: now - age, ready, alive, samples, stream });
  if (position && !lastPosition()) {
    setPosition(position);
  } else if (isBehind(position)) {
    // What the leader has read from the list was sent to nobody. What is not in the list then is kept no more.
    load().then(() => isBehind(position) && setPosition(position));
  }
}
