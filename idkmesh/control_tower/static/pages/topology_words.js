// What a person reads of a release: how it is, what that means, what to do. Pure.

import { count, dateTime, duration, number, visible, zone } from "../format.js";
import { picked } from "../words.js";
import { causeWords } from "./router_words.js";
import { isTransition } from "./topology_spans.js";

// State: [word, meaning, what to do].
export const STATES = {
  populated: [
    "Populated",
    "It is declared and has a ready endpoint: invocations are passed on.",
    "There is nothing to do. Where invocations fail with AGENT_TRANSPORT_FAILED, look at the instance: it is " +
      "registered and does not answer.",
  ],
  empty: [
    "Empty",
    "It is declared and has no ready endpoint: invocations are refused with AGENT_UNAVAILABLE.",
    "Start an instance of it, or see why those that run are not registered as ready.",
  ],
  missing: [
    "Missing",
    "The provider has no such release: invocations are refused with AGENT_UNAVAILABLE.",
    "Declare it there, or mend what the caller asks for: agent, version and release count letter for letter.",
  ],
  unavailable: [
    "Unavailable",
    "The watch of it has failed, and what was known is dropped: invocations are refused until it is heard of again.",
    "Look at the provider, and at the router's log. It is tried again by itself, every 5 s or sooner.",
  ],
  initializing: [
    "Initializing",
    "Nothing has been heard of it yet: an invocation waits for a second at most.",
    "Wait: it has another state within 10 s.",
  ],
};

const UNKNOWN = ["", "This page does not know the state. It may be of another version: load it again.", ""];

export const stateOf = (state) => picked(STATES, state, [visible(String(state)), UNKNOWN[1], UNKNOWN[2]]);

// Seconds since `observedAt`; null where that is no time. A wall clock that was set back makes it nothing, never less.
export function ageOf({ observedAt }, now) {
  const age = (now - new Date(observedAt).getTime()) / 1000;
  return Number.isFinite(age) ? Math.max(age, 0) : null;
}

export const together = (words) => words.replaceAll(" ", "\u00a0"); // on one line

// Why a release is unavailable, in words, as far as its events tell; empty of any other. `evidence` is oldest first.
export const whyWords = ({ state }, evidence) =>
  state === "unavailable" ? causeWords(evidence.findLast(({ after }) => after === state)?.event.data.cause) : "";

// [state, the rest]: "Populated" and "revision 3, unchanged for 2 min", and of what is unavailable why, if it is known.
export function rowWords(item, evidence, now) {
  const age = ageOf(item, now);
  const how = item.state === "unavailable" ? "so" : "unchanged";
  const lasting = age === null ? "" : `, ${how} for ${together(duration(age))}`;
  const why = whyWords(item, evidence);
  return [stateOf(item.state)[0], `revision ${number(item.localRevision)}${lasting}${why && `; ${why}`}`];
}

// "minute", "5 min", "hour": what the strips show the last of.
export const spanName = (span) => picked({ 60_000: "minute", 3_600_000: "hour" }, span, duration(span / 1000));

// What a strip says in words. `spans` as of topology_spans.js.
export function stripWords(evidence, spans, now) {
  const transitions = evidence.filter(isTransition).filter(({ at }) => at >= (spans[0]?.from ?? now));
  const lengths = spans.filter(({ state }) => state === "unknown").map(({ from, to }) => (to - from) / 1000);
  const unknown = lengths.reduce((sum, seconds) => sum + seconds, 0);
  const holes = unknown >= 1 ? `; not known for ${duration(unknown)}` : "";
  const newest = transitions.at(-1);
  if (!newest) {
    return `No transition${holes}`;
  }
  const told = `${count(transitions.length, "transition")}, the newest ${duration((now - newest.at) / 1000)} ago`;
  return `${told}: was ${visible(String(newest.before))}${holes}`;
}

// The rows of the panel: [name, value, note].
export function detailRows(item, now) {
  const age = ageOf(item, now);
  return [
    ["State", stateOf(item.state)[0]],
    ["Local revision", number(item.localRevision), "compares with no other session"],
    ["Observed", age === null ? visible(String(item.observedAt)) : `${duration(age)} ago`],
    ["At", age === null ? "" : `${dateTime(item.observedAt)} ${zone(item.observedAt)}`, "by the router's clock"],
    ["Agent", visible(item.agentId)],
    ["Version", visible(item.agentCardVersion)],
    ["Release", visible(item.releaseId)],
  ].filter(([, value]) => value !== "");
}
