// The modules that are declared, their instances, what comes next for each; and the form that judges a check.
// See list_page.js for its laws. `+check` is no name of a module, so the form has an address of its own.

import { el } from "../dom.js";
import { ApplicationCheck } from "./check_form.js";
import { ListPage } from "./list_page.js";
import { LiveFeed } from "./live_feed.js";
import { moduleDetail } from "./module_detail.js";
import { ModuleRow } from "./module_row.js";
import { ModuleVerdict } from "./module_verdict.js";
import { isUnseen } from "./module_words.js";

export const workloads = {
  name: "workloads",
  title: "Workloads",
  key: "w",
  open: (root, rest) => new Workloads(root, rest),
};

const FORM = "+check";
const NONE = "No modules: start with idkmesh control-tower --modules FILE. examples/modules.yaml is such a file.";
const CHOICES = {
  state: [
    "Health",
    { "": "Any", bad: "Not healthy", unhealthy: "Unhealthy", unknown: "Unknown", healthy: "Healthy" },
  ],
  kind: ["Kind", { "": "Any", stateless: "Stateless", singleton: "Singleton", stateful: "Stateful" }],
};

class Workloads {
  #root;
  #view;
  #form;

  constructor(root, rest) {
    this.#root = root;
    this.#open(rest);
  }

  get keys() {
    return this.#view.keys;
  }

  get title() {
    return this.#form ? "Application check" : workloads.title;
  }

  // What is asked for belongs to the list: it is not asked for while the form is open.
  go(rest) {
    if (rest.startsWith(FORM) === this.#form) {
      this.#view.go(rest);
      return;
    }
    this.#view.close();
    this.#root.replaceChildren();
    scrollTo(0, 0);
    this.#root.focus({ preventScroll: true });
    this.#open(rest);
  }

  #open(rest) {
    this.#form = rest.startsWith(FORM);
    this.#view = this.#form ? new ApplicationCheck(this.#root, rest) : listOf(this.#root, rest);
  }

  update() {
    this.#view.update();
  }

  close() {
    this.#view.close();
  }
}

function listOf(root, rest) {
  const verdict = new ModuleVerdict(() => view.only({ state: "bad" }));
  const view = new ListPage(root, rest, {
    name: workloads.name,
    title: workloads.title,
    noun: ["module", "modules"],
    feed: (onAnswer) => new LiveFeed("/api/v1/modules", { not_found: NONE }, onAnswer),
    detail: moduleDetail(),
    choices: CHOICES,
    list: el("ol.modules.card"),
    above: [verdict.element],
    below: [],
    tools: [el("a.button", { href: `#/workloads/${FORM}` }, "Application check")],
    rowClass: "module",
    row: (name) => new ModuleRow(name),
    matches: (module, chosen) =>
      (chosen.kind === "" || chosen.kind === module.module_kind) &&
      (chosen.state === "" || healthsOf(module).some((health) => isWanted(health, chosen.state))),
    text: ({ name, driver, class: named, instances }) =>
      [name, driver, named ?? "", ...instances.flatMap((one) => [one.name, one.location ?? "", one.detail])].join("\n"),
    told: (list, time) => verdict.update(list, time),
    empty,
  });
  return view;
}

const healthsOf = (module) => (isUnseen(module) ? ["unknown"] : module.instances.map(({ health }) => health));
const isWanted = (health, wanted) => (wanted === "bad" ? health !== "healthy" : health === wanted);

function empty(feed, all) {
  if (!feed.list) {
    return feed.trouble || "Asking the service what is known of its modules.";
  }
  if (all > 0) {
    return "No module matches. Change the filter.";
  }
  const empty = "The declaration names no module. Name some in it: it is read again at SIGHUP.";
  return feed.list.lease.role === "none" ? NONE : empty;
}
