// What all dependencies come to, above the list: ready or not, and who stands in the way.

import { el, setText } from "../dom.js";
import { count, number, visible } from "../format.js";
import { state } from "../state.js";
import { isDependency, picked, readyWith } from "../words.js";
import { dependencyLink } from "./dependency_row.js";
import { READINESS } from "./dependency_words.js";
import { Sign, showNames } from "./list_parts.js";

const FEW = 8; // dependencies up to which everybody sees which of them are not ok

export class DependencyVerdict {
  element;
  #sign = new Sign();
  #title = el("p.status", { role: "status" });
  #counts = el("p.counts");
  #failing = el("p.names");
  #warnings = el("p.names");
  #beside = el("p.beside");

  #alone;

  // `showBad` chooses what is not ok.
  constructor(showBad) {
    this.#alone = el("button.small", { type: "button", onclick: showBad }, "Show only what is not ok");
    this.#sign.element.classList.add("lamp");
    this.element = el(
      "section.verdict.card",
      { "aria-label": "What the dependencies come to", hidden: true },
      this.#sign.element,
      el("div.words", {}, this.#title, this.#counts, this.#failing, this.#warnings, this.#alone, this.#beside),
    );
  }

  update(list) {
    this.element.hidden = !list;
    if (!list) {
      return;
    }
    const { status, failing, warnings } = list.readiness;
    const [word, kind] = judged(status, warnings);
    this.#sign.show(kind);
    setText(this.#title, titleOf(status, word, failing));
    setText(this.#counts, countWords(list.items));
    showNames(this.#failing, status === "starting" ? "Critical, not ok yet" : "In the way", failing, dependencyLink);
    showNames(this.#warnings, "Warnings", warnings, dependencyLink);
    this.#alone.hidden = failing.length + warnings.length === 0 || list.items.length <= FEW;
    setText(this.#beside, besideWords());
    this.#beside.hidden = besideWords() === "";
  }
}

function judged(status, warnings) {
  const [word, kind] = picked(READINESS, status, [visible(String(status)), "unknown"]);
  return status === "ready" ? readyWith(word, kind, warnings.length) : [word, kind];
}

function titleOf(status, word, failing) {
  if (status === "starting") {
    return "Starting: each probe has to run once";
  }
  if (status === "not_ready") {
    return `${word}: ${count(failing.length, "critical dependency is", "critical dependencies are")} not ok`;
  }
  return word;
}

function countWords(items) {
  if (items.length === 0) {
    return "There is no dependency: nothing stands in the way.";
  }
  const ok = items.filter(({ verdict }) => verdict === "ok").length;
  const failing = items.filter(({ verdict }) => verdict === "failing").length;
  const unknown = items.length - ok - failing;
  const parts = [`${number(ok)} ok`, `${number(failing)} failing`, `${number(unknown)} unknown`];
  return `${count(items.length, "dependency", "dependencies")}: ${parts.join(", ")}.`;
}

// /readyz says no for more reasons than dependencies.
function besideWords() {
  if (state.ready?.code === "shutting_down" || state.service === "draining") {
    return "The service drains: /readyz says no, whatever the dependencies come to.";
  }
  const others = (state.ready?.failing ?? []).filter((name) => !isDependency(name)).map((name) => visible(String(name)));
  return others.length > 0 ? `/readyz says no for ${others.join(", ")} too: the overview says more.` : "";
}
