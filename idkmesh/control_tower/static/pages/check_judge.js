// Who judges a check: the published schema at once, the service a moment after the last key.
//
// Laws: the service is asked of one check at a time and only where the schema finds nothing; a refusal is asked again
// no sooner than it says; without either the form says so, and does not call anything right.

import { ask } from "../api.js";
import { backoff } from "../backoff.js";
import { isReadable, judge } from "./readiness_schema.js";

const SCHEMAS = { readiness: "/api/v1/schemas/readiness.json", modules: "/api/v1/schemas/modules.json" };
const PATH = "/api/v1/inspect/readiness-command";
const PAUSE = 400; // ms after the last key
const ARGUMENTS = 8; // until the schema has come

let schemas = null; // {readiness, name}, read once while the page is loaded

export class CheckJudge {
  value = { name: "", command: [""], timeoutSecs: null };
  #faults = [];
  #answer = null; // of the service: {verdict, findings, yaml}
  #trouble = ""; // why the service has not judged
  #unread = ""; // why there is no schema
  #timer = 0;
  #tries = 0;
  #round = 0; // grows with each change: an answer to an earlier one is not wanted
  #open = true;
  #changed;

  constructor(changed) {
    this.#changed = changed;
    if (!schemas) {
      this.#read();
    }
  }

  close() {
    this.#open = false;
    clearTimeout(this.#timer);
  }

  take(value) {
    if (JSON.stringify(value) === JSON.stringify(this.value)) {
      return;
    }
    this.value = value;
    this.#answer = null;
    this.#trouble = "";
    this.#tries = 0;
    this.#again(PAUSE);
  }

  faultsOf(path) {
    return this.#faults.filter(({ at }) => at === path);
  }

  // Findings of the service on a field; those on none where `path` is null.
  findingsOf(path) {
    const found = this.#answer?.verdict === "refused" ? this.#answer.findings : [];
    return found.filter(({ field }) => pathOf(field, this.value.command.length) === path);
  }

  get refused() {
    return this.#answer?.verdict === "refused" ? this.#answer : null;
  }

  // Whether anybody has judged it: without a schema the service alone can.
  get isJudged() {
    return schemas !== null || this.#answer !== null;
  }

  get yaml() {
    return this.#answer?.verdict === "accepted" && typeof this.#answer.yaml === "string" ? this.#answer.yaml : null;
  }

  get seconds() {
    const { minimum: least = 1, maximum: most = 15 } = schemas?.readiness.properties.timeoutSecs ?? {};
    return { least, most };
  }

  get mostArguments() {
    return schemas ? schemas.readiness.properties.command.maxItems - 1 : ARGUMENTS;
  }

  // [sign, words] where the schema finds nothing, or has not come.
  words() {
    if (this.#answer) {
      return this.refused
        ? ["bad", "The service refuses it."]
        : ["good", "Accepted by the service. Nothing was changed: paste it yourself."];
    }
    const own = schemas ? "The schema accepts it." : `The schema has not come. ${this.#unread}`;
    return this.#trouble
      ? ["warn", `${own} ${this.#trouble}`]
      : ["idle", schemas ? `${own} Asking the service.` : own || "Asking the service for the rules."];
  }

  #again(pause) {
    clearTimeout(this.#timer);
    this.#round += 1;
    this.#faults = schemas ? faultsOf(this.value) : [];
    if (this.#open && this.#faults.length === 0 && this.value.name !== "") {
      this.#timer = setTimeout(() => this.#ask(), pause);
    }
  }

  async #ask() {
    const round = this.#round;
    const headers = { "Content-Type": "application/json" };
    const body = JSON.stringify(this.value);
    const answer = await ask(PATH, { method: "POST", headers, body }).catch(() => null);
    if (round !== this.#round || !this.#open) {
      return;
    }
    const { verdict, findings } = answer?.body ?? {};
    if (answer?.ok && (verdict === "accepted" || (verdict === "refused" && Array.isArray(findings)))) {
      this.#answer = answer.body;
      this.#trouble = "";
    } else {
      this.#trouble = troubleOf(answer);
      if (!answer || answer.status >= 500) {
        this.#tries += 1;
        this.#again(backoff(this.#tries, answer?.retryAfter ?? 0));
      }
    }
    this.#changed();
  }

  // Both schemas, until they have come or cannot be used.
  async #read(tries = 1) {
    const answers = [];
    for (const path of Object.values(SCHEMAS)) {
      answers.push(await ask(path).catch(() => null));
    }
    if (!this.#open) {
      return;
    }
    const [readiness, name] = [answers[0]?.body, answers[1]?.body?.properties?.modules?.items?.properties?.name];
    if (answers.every((answer) => answer?.ok) && name && isReadable(readiness) && isReadable(name)) {
      schemas = { readiness, name };
      this.#unread = "";
      this.#again(PAUSE);
    } else if (answers.every((answer) => answer?.ok)) {
      this.#unread = "It says more than this page understands, so the service alone judges.";
    } else {
      this.#unread = "It is asked for again by itself.";
      const asked = Math.max(...answers.map((answer) => answer?.retryAfter ?? 0));
      setTimeout(() => this.#open && this.#read(tries + 1), backoff(tries, asked));
    }
    this.#changed();
  }
}

function faultsOf({ name, command, timeoutSecs }) {
  const of = judge(schemas.readiness, { command, timeoutSecs }).map((fault) => ({ ...fault, at: fault.at.slice(1) }));
  return [...judge(schemas.name, name, "name"), ...of];
}

// Where a finding of the service stands in the form: it may name a field as command[1], command.1 or command/1.
function pathOf(field, size) {
  const text = String(field);
  const [, index] = /command\D{0,2}(\d{1,3})/.exec(text) ?? [];
  if (index !== undefined) {
    return Number(index) < size ? `command/${index}` : null;
  }
  return /(^|\W)name$/.test(text) ? "name" : text.includes("timeoutSecs") ? "timeoutSecs" : null;
}

function troubleOf(answer) {
  if (!answer) {
    return "The service does not answer, so it has not judged it. It is asked again by itself.";
  }
  if (answer.status === 404) {
    return "This service does not judge checks: idkmesh modules check FILE does.";
  }
  const again = answer.status >= 500 ? " It is asked again by itself." : "";
  return `The service has not judged it: it answered ${answer.status} ${answer.code}: ${answer.message}${again}`;
}
