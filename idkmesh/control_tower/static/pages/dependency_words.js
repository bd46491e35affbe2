// What a person reads of a dependency: how it is and since when, why, what to do, and what it means. Pure.

import { dateTime, duration, number, shortened, visible, zone } from "../format.js";
import { picked } from "../words.js";
import { latencyWords } from "./beats.js";

const VERDICTS = { ok: "Ok", failing: "Failing", unknown: "Unknown" };

export const READINESS = {
  ready: ["Ready", "good"],
  not_ready: ["Not ready", "bad"],
  starting: ["Starting", "idle"],
};

export const readinessWord = (status) => picked(READINESS, status, [visible(String(status))])[0].toLowerCase();

// Why a verdict is unknown, in a few words.
const UNKNOWN = {
  not_run: "not probed yet",
  stale: "the newest result has expired",
  could_not_run: "the probe could not be run",
  stuck: "the probe has not come back",
  below_threshold: "too few results in a row",
};

// The sign of a row. Unknown is never ok, and has a mark of its own.
export function signOf({ verdict, critical }) {
  if (verdict === "ok") {
    return "good";
  }
  return verdict === "failing" ? (critical ? "bad" : "warn") : "unknown";
}

const detailOf = ({ detail }) => (detail === null ? "" : visible(shortened(String(detail), 200)));

// [how it is and for how long, why]. `now` is the wall clock of the service in ms.
export function stateWords(item, now) {
  const word = picked(VERDICTS, item.verdict, visible(String(item.verdict)));
  if (item.reason === "not_run") {
    return ["Unknown", UNKNOWN.not_run];
  }
  const since = (now - new Date(item.since).getTime()) / 1000;
  const state = Number.isFinite(since) ? `${word} for ${duration(since)}` : word;
  const why = item.reason ? picked(UNKNOWN, item.reason, visible(String(item.reason))) : "";
  const detail = ["stale", "stuck"].includes(item.reason) ? "" : detailOf(item);
  return [state, [why, detail].filter(Boolean).join(": ")];
}

// What a row of results comes to, where it has begun to and is not there yet: "2 of 3 failures"; else empty.
export function towards({ verdict, successes, failures, success_threshold: up, failure_threshold: down }) {
  if (verdict !== "failing" && failures > 0 && failures < down) {
    return `${number(failures)} of ${number(down)} failures`;
  }
  if (verdict !== "ok" && successes > 0 && successes < up) {
    return `${number(successes)} of ${number(up)} successes`;
  }
  return "";
}

// "2 of 3", and how long the row is where that is more.
export function threshold(row, needed) {
  const shown = `${number(Math.min(row, needed))} of ${number(needed)}`;
  return row > needed ? `${shown} (${number(row)} in a row)` : shown;
}

// `passed` are the seconds since the answer.
export function nextWords({ running, stuck, next_run_seconds: next, refresh }, passed) {
  if (stuck) {
    return "Stuck: its probe has not come back";
  }
  if (running) {
    return "Being probed now";
  }
  if (next === null) {
    return refresh === "request" ? "Refreshed on request" : "No probe planned";
  }
  const left = Math.ceil(next - passed);
  return left > 0 ? `Next probe in ${duration(left)}` : "Next probe is due";
}

// What the instance would be if the matrix did not name it, and what that says.
export function withoutWords({ readiness_without: without, verdict, critical }, status) {
  const word = readinessWord(without);
  if (without !== status) {
    return `${word}: ${status === "starting" ? "the start waits for it alone" : "it alone stands in the way"}`;
  }
  if (verdict === "ok") {
    return `${word}, as now`;
  }
  return critical ? `${word}, as now: others stand in the way too` : `${word}, as now: it is a warning`;
}

export const ms = (value) => latencyWords(value);

// [pattern of the word, what to do]: the words are those of the probes (HL-4.12).
const ADVICE = [
  [/^refused$/, "Nothing listens at its address. See that it runs, and that the matrix names the right port."],
  [/^timeout$/, "It did not answer in its time. See whether it is overloaded, or cut off by a firewall."],
  [/^unreachable$/, "No way leads to its address. Look at the network, and at the address in the matrix."],
  [/^(reset|closed without an answer|cut short)$/, "It ended the connection too early. Its own log says more."],
  [/^no such name$/, "Its name is not known. Look at the name in the matrix, and at the name servers."],
  [/^(no answer from the name servers|the resolver failed)$/, "The name servers do not answer. Look at those first."],
  [/^status \d+$/, "It answers, and with another status than is expected. Its own log says more."],
  [/^(certificate|TLS)$/, "No secure connection came about. Look at its certificate: its names, its end, its issuer."],
  [/^(exit \d+|signal .*)$/, "Its command ended without success. Run the same command by hand to see what it says."],
  [/^missing$/, "The file is not there. See whether what writes it runs, and look at the path in the matrix."],
  [/^too old$/, "The file was not renewed in time. See whether what writes it still runs."],
  [/^too (small a share|few bytes) free$/, "The disk is nearly full. Free some room, or give it more."],
];

export function advice(item) {
  const { verdict, reason, refresh, detail } = item;
  if (verdict === "ok") {
    return "There is nothing to do.";
  }
  if (reason === "not_run") {
    return "Its first probe has not ended yet. There is nothing to do but to wait.";
  }
  if (reason === "stale") {
    return refresh === "request"
      ? "Its probe runs when /readyz is asked for, which this page does each second. If it lasts, see whether it is stuck."
      : "No newer result has come in time. If it lasts, the machine is short of CPU, or its probe is late.";
  }
  if (reason === "stuck") {
    return "Its probe overstayed its time and cannot be ended. It is asked again when it has come back, or after a restart.";
  }
  if (reason === "could_not_run") {
    return "That says nothing of the dependency. Mend the probe: its row in the matrix, its program, its rights.";
  }
  if (reason === "below_threshold") {
    return "What was known of it was lost, and the contrary has to be seen more often in a row.";
  }
  const known = ADVICE.find(([pattern]) => pattern.test(String(detail)));
  return known?.[1] ?? "Look at the dependency itself. The word is its probe's.";
}

// What it means for the instance.
export function meaning({ verdict, critical }) {
  if (verdict === "ok") {
    return critical ? "Critical: while it is not ok the instance gets no traffic." : "Noncritical: a failure is a warning.";
  }
  return critical
    ? "Critical: while it is not ok the instance is not ready."
    : "Noncritical: it does not keep the instance from being ready. It is a warning.";
}

// What a row of results is for. The first result decides at once, so a state may be there before its row is full.
const untilWords = ({ verdict }, then) => (verdict === then ? `it is ${then}` : `until it is ${then}`);

// The rows of the panel: [name, value, note].
export function detailRows(item, status, passed, now) {
  const { age_seconds: age, cache_ms: life, timeout_ms: timeout, interval_ms: interval, refresh } = item;
  const old = age === null ? null : age + passed;
  const left = old === null ? 0 : life / 1000 - old;
  return [
    ["State", stateWords(item, now)[0], `since ${dateTime(item.since)} ${zone(item.since)}`],
    ["Leaving it out", withoutWords(item, status), "readiness, if the matrix did not name it"],
    ["Failures in a row", threshold(item.failures, item.failure_threshold), untilWords(item, "failing")],
    ["Successes in a row", threshold(item.successes, item.success_threshold), untilWords(item, "ok")],
    ["Next probe", nextWords(item, passed)],
    ["Newest result", old === null ? "none yet" : `${duration(old)} ago`, detailOf(item)],
    ["It is valid for", old === null ? "" : left > 0 ? `${duration(Math.ceil(left))} more` : "no longer: it has expired"],
    ["Probe", visible(String(item.probe)), refresh === "request" ? "when /readyz is asked for" : "by the schedule"],
    ["Timeout", ms(timeout), "timeout_ms, of one run"],
    ["Interval", ms(interval), refresh === "request" ? "interval_ms, at least, from run to run" : "interval_ms, from run to run"],
    ["A result is valid for", ms(life), "cache_ms, then it is unknown"],
  ].filter(([, value]) => value !== "");
}
