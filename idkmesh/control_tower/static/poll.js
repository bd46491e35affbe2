// Asks how the service is, once a second. Only the leading tab does.
//
// Laws: one question at a time; while nothing answers, or a refusal does, the questions come more slowly, never before
// the time that Retry-After names, and not all browsers' at once; what was answered is told in the service's own words
// where this page has none.

import { ask, question } from "./api.js";
import { backoff } from "./backoff.js";
import { token } from "./session.js";

const BEAT = 1000; // ms between the starts of two questions
const BEHIND = 900; // ms that the status waits for another question of this tab
const SLOWEST = 5000;
const JUDGEMENTS = new Set(["ready", "not_ready", "starting"]);
const CODES = { overloaded: "overloaded", shutting_down: "draining", unauthorized: "locked" };

export class Poll {
  #onAnswer;
  #timer = 0;
  #misses = 0;
  #refusals = 0;
  #asking = false;
  #stopped = false;

  // `onAnswer({service, words, status, ready, alive, sent})`; `status` only where it came.
  constructor(onAnswer) {
    this.#onAnswer = onAnswer;
  }

  // Asks now, unless it is asking.
  async beat() {
    if (this.#asking) {
      return;
    }
    this.#asking = true;
    clearTimeout(this.#timer);
    const began = performance.now();
    const sent = token();
    const [status, ready, alive] = await Promise.all([
      quietly(ask("/api/v1/status", { most: BEHIND })),
      quietly(question("/readyz")),
      quietly(question("/healthz")),
    ]);
    if (this.#stopped) {
      return;
    }
    this.#asking = false;
    this.#misses = status ? 0 : this.#misses + 1;
    this.#refusals = status && !status.ok ? this.#refusals + 1 : 0;
    this.#onAnswer({ ...judged(status, ready, alive), ready: readiness(ready), alive: alive ? alive.ok : null, sent });
    const wait = Math.max(this.#pause(status) - (performance.now() - began), 50);
    this.#timer = this.#stopped ? 0 : setTimeout(() => this.beat(), wait);
  }

  // Milliseconds from the start of a question to the next.
  #pause(status) {
    if (this.#refusals) {
      return Math.max(backoff(this.#refusals, status.retryAfter, Math.random(), SLOWEST), BEAT);
    }
    return this.#misses ? Math.min(BEAT * 1.5 ** this.#misses, SLOWEST) * (0.75 + Math.random() / 2) : BEAT;
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }
}

async function quietly(asked) {
  try {
    return await asked;
  } catch {
    return null; // the connection failed, or nothing came in time
  }
}

// Where a probe gave no answer, the status document has the same.
function judged(status, ready, alive) {
  if (!status) {
    return { service: "lost", words: "" };
  }
  if (status.ok && status.body?.operations) {
    const { usage, health } = status.body.operations;
    const verdict = ready?.body?.status ?? health?.readiness?.status;
    const draining = usage?.draining || ready?.code === "shutting_down";
    const stalled = alive ? alive.status === 503 : health?.watchdog?.overdue?.length > 0;
    const judgement = JUDGEMENTS.has(verdict) ? verdict : "ready";
    return { service: draining ? "draining" : stalled ? "stalled" : judgement, words: "", status: status.body };
  }
  if (Object.hasOwn(CODES, status.code)) {
    return { service: CODES[status.code], words: "" };
  }
  const said = `The service answered ${status.status} ${status.code}: ${status.message} This page keeps asking.`;
  return { service: "unexpected", words: status.message ? said : "" };
}

function readiness(answer) {
  if (!answer) {
    return null;
  }
  const { status = "", failing = [], warnings = [], failing_total: fails, warnings_total: warns } = answer.body ?? {};
  const totals = { failingTotal: fails ?? failing.length, warningsTotal: warns ?? warnings.length };
  return { ok: answer.ok, status, failing, warnings, ...totals, code: answer.code };
}
