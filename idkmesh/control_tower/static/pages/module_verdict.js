// What all modules come to, above the list: who acts, how many instances are not healthy, and of which modules.

import { el, setText } from "../dom.js";
import { count, duration, number } from "../format.js";
import { Sign, showNames } from "./list_parts.js";
import { moduleLink } from "./module_row.js";
import { failsNow, foreign, isUnseen } from "./module_words.js";

const FEW = 8; // modules up to which everybody sees which of them are not well
const LATE = 3; // intervals without a pass

export class ModuleVerdict {
  element;
  #sign = new Sign();
  #title = el("p.status", { role: "status" });
  #lease = el("p.lease");
  #counts = el("p.counts");
  #unhealthy = el("p.names");
  #unknown = el("p.names");
  #unseen = el("p.names");
  #pass = el("p.pass");
  #fault = el("p.beside");
  #platforms = el("p.beside");
  #alone;

  // `showBad` chooses what is not healthy.
  constructor(showBad) {
    this.#alone = el("button.small", { type: "button", onclick: showBad }, "Show only what is not healthy");
    this.#sign.element.classList.add("lamp");
    const { element: lamp } = this.#sign;
    const names = [this.#unhealthy, this.#unknown, this.#unseen];
    const faults = [this.#platforms, this.#fault];
    const lines = [this.#counts, ...names, this.#alone, this.#lease, this.#pass, ...faults];
    this.element = el(
      "section.verdict.card",
      { "aria-label": "What the modules come to", hidden: true },
      lamp,
      el("div.words", {}, this.#title, ...lines),
    );
  }

  update(list, { passed }) {
    this.element.hidden = !list || list.items.length === 0;
    if (this.element.hidden) {
      return;
    }
    const sums = sumsOf(list.items);
    const [title, kind] = verdictOf(list, sums);
    this.#sign.show(kind);
    setText(this.#title, title);
    setText(this.#lease, leaseWords(list.lease));
    const modules = count(list.items.length, "module");
    const failing = sums.failing > 0 ? ` (${count(sums.failing, "fails now", "fail now")})` : "";
    const seen = `${modules}, ${count(sums.all, "instance")}: ${number(sums.healthy)} healthy${failing}, `;
    setText(this.#counts, `${seen}${number(sums.unhealthy)} unhealthy, ${number(sums.unknown)} unknown.`);
    this.#counts.hidden = sums.all === 0;
    showNames(this.#unhealthy, "Unhealthy in", namesOf(list.items, "unhealthy"), moduleLink);
    showNames(this.#unknown, "Unknown in", namesOf(list.items, "unknown"), moduleLink);
    const unseen = sums.all === 0 ? [] : sums.unseen; // the title says so where it is all of them
    showNames(this.#unseen, "No instance seen of", unseen, moduleLink);
    this.#alone.hidden = sums.unhealthy + sums.unknown + unseen.length === 0 || list.items.length <= FEW;
    const pass = passWords(list, passed);
    setText(this.#pass, pass);
    this.#pass.hidden = pass === "";
    const silent = silentOf(list).map(({ name, fault }) => `${foreign(name)} (${foreign(fault)})`);
    setText(this.#platforms, `Told nothing of its instances in the newest pass: ${silent.join(", ")}.`);
    this.#platforms.hidden = silent.length === 0;
    this.#fault.hidden = list.store_fault === null;
    const lost = "What is known of instances is not kept, so a supervisor that starts again begins with nothing";
    setText(this.#fault, this.#fault.hidden ? "" : `${lost}: ${foreign(list.store_fault)}.`);
  }
}

function sumsOf(items) {
  const unseen = items.filter(isUnseen).map(({ name }) => name);
  const sums = { healthy: 0, unhealthy: 0, unknown: 0, failing: 0, all: 0, unseen };
  for (const { counts, instances } of items) {
    sums.healthy += counts.healthy;
    sums.unhealthy += counts.unhealthy;
    sums.unknown += counts.unknown;
    sums.failing += instances.filter(failsNow).length;
    sums.all += instances.length;
  }
  return sums;
}

// Platforms that told nothing in the newest pass; a service of before does not tell which.
const silentOf = ({ platforms = [] }) => platforms.filter(({ fault }) => fault !== null);

function verdictOf(list, { healthy, unhealthy, unknown, failing, all, unseen }) {
  const { lease, items } = list;
  if (lease.role === "standby") {
    const who = lease.holder === null ? "nobody is known to hold the lease" : "another supervisor acts";
    return [`Standby: ${who}`, lease.holder === null ? "warn" : "idle"];
  }
  if (lease.role === "starting") {
    return ["Starting: no pass has been made", "idle"];
  }
  if (unhealthy > 0) {
    return [count(unhealthy, "instance is unhealthy", "instances are unhealthy"), "bad"];
  }
  if (unknown > 0) {
    return [`It is not known how ${count(unknown, "instance is", "instances are")}`, "unknown"];
  }
  if (all === 0) {
    return [`No instance of ${count(items.length, "module")} is seen`, "warn"];
  }
  if (unseen.length > 0) {
    const who = unseen.length === 1 ? `${foreign(unseen[0])} has` : `${number(unseen.length)} modules have`;
    return [`${who} no instance that is seen`, "warn"];
  }
  const well = `${all === 1 ? "The one instance is" : `All ${number(healthy)} instances are`} healthy`;
  const now = all === 1 ? ", but fails now" : `, ${count(failing, "of them fails now", "of them fail now")}`;
  const silent = silentOf(list).map(({ name }) => foreign(name));
  const last = silent.length > 0 ? `, as last known: ${silent.join(", ")} tells nothing now` : "";
  return failing > 0 || last ? [`${well}${failing > 0 ? now : ""}${last}`, "warn"] : [well, "good"];
}

// Who may act, and what follows for what is shown here.
function leaseWords({ role, held, holder }) {
  if (held) {
    const name = holder === null ? "" : ` as ${foreign(holder)}`;
    return `This supervisor holds the lease${name}: it asks the instances, and restarts what is due.`;
  }
  if (role === "standby") {
    const other = holder === null ? "Nobody is known to hold the lease" : `${foreign(holder)} holds the lease`;
    const where = "where a tower holds it, that tower's page shows the instances";
    return `${other}. This supervisor asks nothing and restarts nothing; ${where}.`;
  }
  return role === "observer"
    ? "It looks once, without the lease, and restarts nothing."
    : "It has not yet tried to take the lease.";
}

function passWords({ lease, pass }, passed) {
  const { interval_seconds: interval, last_pass_seconds: took, last_pass_age_seconds: age } = pass;
  if (age === null || lease.role === "standby") {
    return "";
  }
  const old = age + passed;
  const lasted = took === null ? "" : ` and took ${lasting(took)}`;
  if (old > LATE * interval) {
    const why = "it waits for instances that do not answer, or the supervisor hangs";
    return `The last pass began ${duration(old)} ago, and one is due each ${number(interval)} s: ${why}.`;
  }
  return `The last pass began ${duration(old)} ago${lasted}; one begins each ${number(interval)} s.`;
}

const lasting = (took) => (took < 1 ? `${Math.round(took * 1000)} ms` : `${number(Math.round(took * 10) / 10)} s`);

const namesOf = (items, health) => items.filter(({ counts }) => counts[health] > 0).map(({ name }) => name);
