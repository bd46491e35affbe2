// What a person reads about the service and the stream: what happened, what to do. Pure.

import { count, duration, number } from "./format.js";
import { instant } from "./state.js";
import { TOPOLOGY_TYPES } from "./topology_events.js";
import { WORKLOAD_TYPES } from "./workload_events.js";

// What foreign data may choose: an own property alone.
export const picked = (from, key, otherwise) => (Object.hasOwn(from, key) ? from[key] : otherwise);

// State: [verdict, sign, explanation].
export const STATES = {
  connecting: ["Connecting", "idle", "Asking the service for its status."],
  ready: ["Ready", "good", "The service answers and has room."],
  not_ready: [
    "Not ready",
    "bad",
    "The service answers, and says that it must not get traffic now.",
  ],
  starting: [
    "Starting",
    "idle",
    "The service answers, and is not ready yet: each probe of a dependency has to run once. The start is no failure.",
  ],
  stalled: [
    "Stalled",
    "bad",
    "The service answers, and says that a part of it makes no progress: liveness fails, and an orchestrator restarts it.",
  ],
  overloaded: [
    "Overloaded",
    "warn",
    "Every place is taken. New requests are told to come back. If it lasts, raise --max-concurrent-requests.",
  ],
  draining: [
    "Draining",
    "warn",
    "It finishes what it has admitted and takes nothing new. Start it again when it has ended: this page comes back.",
  ],
  lost: [
    "No answer",
    "bad",
    "It has ended, or is too busy. If it has ended, start it again: this page comes back, or asks for the new link.",
  ],
  locked: ["Link needed", "bad", "This tab has no valid token. Open the link that the command printed."],
  unexpected: [
    "Unexpected answer",
    "bad",
    "Something answers at this address, and not as this service does. Look at what listens on this port.",
  ],
};

// What is ready with warnings is so everywhere: [word, sign].
export const readyWith = (word, kind, warnings) =>
  warnings > 0 ? [`${word}, with ${count(warnings, "warning")}`, "warn"] : [word, kind];

// What readiness names: [when it fails, when it warns]. The watchdog never warns.
const CONDITIONS = {
  event_store: [
    "The event store takes no events. Look at the disk: is it full, is the file writable? It tries again by itself.",
    "The event store was damaged and put aside whole. A new one has begun; the log says where the old one is.",
  ],
  process_watchdog: [
    "A part of the process makes no progress, and its log says which. Who is not alive is not ready either; if it does " +
      "not go on by itself, start the service again.",
  ],
  worker_slot: [
    "A request has held its place for long.",
    "A request has held its place for longer than the watchdog allows a component to be silent. Its handler may wait " +
      "for something slow; the places that are left serve the rest. The log says for how long.",
  ],
};

const NAME = /^[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?$/;

// Whether a name is that of a dependency (HL-3.1). Conditions of the service itself have an underscore.
export const isDependency = (name) => typeof name === "string" && NAME.test(name);

export function condition(name, fails) {
  if (isDependency(name)) {
    return fails
      ? "A critical dependency: while it is not ok the instance is not ready."
      : "A noncritical dependency: it does not keep the instance from being ready.";
  }
  return picked(CONDITIONS, name, Array(2).fill("The log of the service says more."))[fails ? 0 : 1];
}

// Why the stream waits, by the code of the answer or a reason of our own: [short, what happened and what to do].
const WAITS = {
  too_many_streams: [
    "No free stream",
    "Every stream is taken. Close another reader, or raise --max-sse-clients. The next free one is taken by itself.",
  ],
  overloaded: [
    "Service overloaded",
    "The service has no room for the stream. If it lasts, raise --max-concurrent-requests. It is asked again.",
  ],
  shutting_down: [
    "Service draining",
    "The service is shutting down, so the stream has ended. It goes on where it stopped.",
  ],
  lost: ["Stream lost", "The connection broke. It goes on where it stopped as soon as the service answers."],
  silent: ["Stream lost", "Two heartbeats were missed, so the stream counts as dead. A new one is opened."],
  cursor_expired: [
    "Stream begins anew",
    "The place where this page stopped is gone from the store. To keep more, raise --event-retention-count.",
  ],
  invalid_last_event_id: [
    "Stream begins anew",
    "The store was replaced, so the old place means nothing. There is nothing to do.",
  ],
  unreadable: [
    "Stream not readable",
    "What arrived is no event as this page knows it. If it lasts, load the page again: it may be of another version.",
  ],
  unavailable: [
    "No event stream",
    "This service has no event stream. Start one of this version with idkmesh control-tower.",
  ],
};

export function streamWords(stream, now = instant()) {
  if (stream.phase === "live") {
    return ["Live", ""];
  }
  if (stream.phase === "connecting" && !stream.why) {
    return ["Connecting", "The event stream is being opened."];
  }
  const [short, long] = WAITS[stream.why] ?? ["Stream waits", stream.words || "The event stream is not open."];
  const left = Math.ceil((stream.until - now) / 1000);
  return [short, left > 0 ? `${long} Next try in ${duration(left)}.` : long];
}

// A type of event: [title, sign, words from its data]. Title and sign may follow from the data too.
const limitWords = (limit) => String(limit ?? "a limit").replaceAll("_", " ");
const TYPES = {
  ...TOPOLOGY_TYPES,
  ...WORKLOAD_TYPES,
  "idkmesh.configuration.loaded": [
    "Settings loaded",
    "info",
    ({ limits: { max_concurrent_requests: requests, max_connections: connections, max_sse_clients: streams } = {} }) =>
      `at most ${count(requests, "request")}, ${count(connections, "connection")}, ${count(streams, "stream")}`,
  ],
  "idkmesh.server.started": [
    "Server started",
    "good",
    ({ address, port, version }) => `${address}:${port}, version ${version}`,
  ],
  "idkmesh.drain.started": [
    "Drain began",
    "info",
    ({ in_flight: requests, connections, streams }) =>
      `${requests} in flight, ${count(connections, "connection")}, ${count(streams, "stream")}`,
  ],
  "idkmesh.drain.ended": [
    "Drain ended",
    "info",
    ({ seconds, abandoned }) => `after ${seconds} s, ${abandoned} abandoned`,
  ],
  "idkmesh.overload.began": ["Limit met", "warn", ({ limit, value }) => `${limitWords(limit)}: ${value}`],
  "idkmesh.overload.ended": [
    "Limit free again",
    "good",
    ({ limit, hits, seconds }) => `${limitWords(limit)}: met ${hits} times in ${seconds} s`,
  ],
  "idkmesh.events.refused": [
    "Events were lost",
    "bad",
    ({ refused, dropped, reason }) => `${refused} refused, ${dropped} dropped: ${reason}`,
  ],
  "idkmesh.events.quarantined": ["Damaged store put aside", "bad", ({ reason }) => String(reason)],
  "idkmesh.dependency.changed": [
    ({ to }) => `Dependency ${picked({ ok: "ok", failing: "fails" }, to, "unknown")}`,
    ({ to, critical }) => picked({ ok: "good", failing: critical ? "bad" : "warn" }, to, "unknown"),
    ({ from, to, detail, critical }, subject) =>
      `${subject} (${critical ? "critical" : "noncritical"}): ${from}, now ${to}: ${detail}`,
  ],
  "idkmesh.dependency.could_not_run": [
    "Probe cannot be run",
    ({ critical }) => (critical ? "bad" : "warn"),
    ({ detail, critical }, subject) => `${subject} (${critical ? "critical" : "noncritical"}): ${detail}`,
  ],
  "idkmesh.readiness.changed": [
    ({ to }) => picked({ ready: "Ready", not_ready: "Not ready", starting: "Starting" }, to, "Readiness changed"),
    ({ to, warnings_total: warns }) => (to === "ready" ? (warns > 0 ? "warn" : "good") : "bad"),
    ({ from, failing, failing_total: fails, warnings, warnings_total: warns }) =>
      [
        `was ${limitWords(from)}`,
        fails > 0 ? `in the way: ${namesOf(failing, fails)}` : "",
        warns > 0 ? `warnings: ${namesOf(warnings, warns)}` : "",
      ]
        .filter(Boolean)
        .join("; "),
  ],
  "idkmesh.startup.succeeded": [
    "Start succeeded",
    "good",
    ({ seconds }) => `after ${seconds} s: each probe has run once`,
  ],
  "idkmesh.liveness.failed": [
    "Stalled",
    "bad",
    ({ components, components_total: all, dependency_only: only }) =>
      `silent for too long: ${namesOf(components, all)}${only ? "; a critical dependency is down, no restart mends it" : ""}`,
  ],
  "idkmesh.liveness.recovered": [
    "No longer stalled",
    "good",
    ({ components, components_total: all }) => `beats again: ${namesOf(components, all)}`,
  ],
  "idkmesh.slot.held": [
    "Place held for long",
    "warn",
    ({ seconds, slots }) => `by a request, for ${seconds} s by now; ${count(slots, "place")} so: its handler may wait`,
  ],
  "idkmesh.matrix.reloaded": [
    "Matrix read again",
    "info",
    ({ dependencies, kept, changed, added, removed }) =>
      `${count(dependencies, "dependency", "dependencies")}: ${kept} kept, ${changed} changed, ${added} added, ` +
      `${removed} removed`,
  ],
  "idkmesh.matrix.refused": [
    "Matrix refused",
    "bad",
    ({ findings, line, column, what }) =>
      `the running one stays. Line ${line}, column ${column}: ${what}${findings > 1 ? `; ${findings} findings in all` : ""}`,
  ],
};

const NAMED = 5;

function namesOf(names, total) {
  const shown = Array.isArray(names) ? names.slice(0, NAMED) : [];
  return shown.join(", ") + (total > shown.length ? ` and ${number(total - shown.length)} more` : "");
}

export function eventWords({ type, subject, data }) {
  const row = picked(TYPES, type, [String(type), "idle", null]);
  const known = row[2] && data && typeof data === "object";
  const [title, kind] = [String(type), "idle"].map((unknown, index) => {
    const part = row[index];
    return typeof part === "function" ? (known ? part(data) : unknown) : part;
  });
  const raw = [subject ?? "", JSON.stringify(data) ?? ""].filter(Boolean).join("  ");
  return { title, kind, text: known ? row[2](data, subject ?? "") : raw };
}

// The dependencies that an event is about, as far as their names are such.
export function dependenciesOf({ type, subject, data }) {
  if (type === "idkmesh.dependency.changed" || type === "idkmesh.dependency.could_not_run") {
    return isDependency(subject) ? [subject] : [];
  }
  const lists = type === "idkmesh.readiness.changed" ? [data?.failing, data?.warnings] : [];
  return lists.flatMap((names) => (Array.isArray(names) ? names : [])).filter(isDependency);
}
