// What a person reads about the service and the stream: what happened, what to do. Pure.

import { count, duration } from "./format.js";
import { instant } from "./state.js";

// State: [verdict, sign, explanation].
export const STATES = {
  connecting: ["Connecting", "idle", "Asking the service for its status."],
  ready: ["Ready", "good", "The service answers and has room."],
  not_ready: [
    "Not ready",
    "warn",
    "The service answers, and says that it cannot do its work. What fails, and where to look, stands below.",
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

// What readiness names: [when it fails, when it warns].
const CONDITIONS = {
  event_store: [
    "The event store takes no events. Look at the disk: is it full, is the file writable? It tries again by itself.",
    "The event store was damaged and put aside whole. A new one has begun; the log says where the old one is.",
  ],
};

export function condition(name, fails) {
  return CONDITIONS[name]?.[fails ? 0 : 1] ?? "The log of the service says more.";
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

// A type of event: [title, sign, words from its data].
const limitWords = (limit) => String(limit ?? "a limit").replaceAll("_", " ");
const TYPES = {
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
};

export function eventWords({ type, subject, data }) {
  const [title, kind, words] = TYPES[type] ?? [String(type), "idle", null];
  const known = words && data && typeof data === "object";
  const raw = [subject ?? "", JSON.stringify(data) ?? ""].filter(Boolean).join("  ");
  return { title, kind, text: known ? words(data) : raw };
}
