// One module, whole: what may be done to it, each of its instances with all its figures, what has changed of it.

import { fetchAgain } from "../copy.js";
import { el, setText, showRows } from "../dom.js";
import { count, duration, number, visible } from "../format.js";
import { isModule, modulesOf } from "../workload_events.js";
import { ListDetail } from "./list_detail.js";
import { Changes, Sign } from "./list_parts.js";
import { InstanceLine, InstanceLines } from "./module_row.js";
import * as words from "./module_words.js";

const DRAWN = 50; // instances at first, and again with each "more"

export const moduleDetail = () =>
  new ListDetail({
    page: "workloads",
    one: "module",
    isName: isModule,
    gone: "The declaration has no module of this name. It may have been given up when the file was read again.",
    noName: "This is no name of a module: those have small letters, digits and hyphens, 63 at most.",
    parts: (name) => new Parts(name),
  });

const checkLink = (name) =>
  el("a", { href: `#/workloads/+check/${name}`, dataset: { module: name } }, "Write a check for it");

function showAdvice(target, text) {
  setText(target, text);
  target.hidden = text === "";
}

class InstanceCard {
  element = el("li.whole");
  #line = new InstanceLine("div.instance");
  #advice = el("p.advice");
  #rows = el("dl.rows");
  #figures = el("details.all", { ontoggle: () => this.#showRows() }, el("summary", {}, "Figures"), this.#rows);
  #shown = null; // what is shown now

  constructor() {
    this.element.append(this.#line.element, this.#advice, this.#figures);
  }

  show(instance, module, time) {
    if (!this.#shown) {
      this.#figures.open = words.isNotable(instance);
    }
    this.#shown = [instance, module, time.passed];
    this.#line.show(instance, module, time);
    showAdvice(this.#advice, words.advice(instance, module));
    this.#showRows();
  }

  // Made only where somebody wants to read them.
  #showRows() {
    if (this.#figures.open && this.#shown) {
      showRows(this.#rows, words.instanceRows(...this.#shown));
    }
  }
}

class Parts {
  nodes;
  #sign = new Sign();
  #meaning = el("p");
  #unseen = el("p.advice");
  #outstanding = el("p.advice");
  #rows = el("dl.rows");
  #title = el("h3");
  #list = el("ol.wholes");
  #lines = new InstanceLines(this.#list, () => new InstanceCard());
  #more = el("button.small", { type: "button", onclick: () => this.#showMore() });
  #changes = new Changes();
  #limit = DRAWN;
  #shown = null; // [module, time] of the last tick

  constructor(name) {
    this.nodes = [
      el("h2", {}, this.#sign.element, el("bdi", {}, visible(name))),
      this.#meaning,
      this.#unseen,
      this.#outstanding,
      this.#rows,
      isModule(name) ? el("p", {}, checkLink(name)) : "",
      this.#title,
      this.#list,
      this.#more,
      this.#changes.title,
      this.#changes.list,
      ...fetchAgain(`/api/v1/modules/${name}`, `workloads/${name}`),
    ];
  }

  tick(module, _list, time) {
    this.#shown = [module, time];
    this.#sign.show(words.moduleSign(module));
    showAdvice(this.#unseen, words.unseenWords(module));
    showAdvice(this.#outstanding, words.outstandingWords(module, time.passed));
    this.#lines.show(module.instances.slice(0, this.#limit), module, time);
    this.#changes.show((event) => modulesOf(event).includes(module.name));
  }

  show(module, list) {
    const { instances, readiness } = module;
    setText(this.#meaning, words.kindMeaning(module));
    const cooldown = words.isReportedOnly(module) ? "" : duration(list.pass.cooldown_seconds);
    const command = readiness && `${words.foreign(readiness.program)}, ${number(readiness.timeout_seconds)} s at most`;
    showRows(
      this.#rows,
      [
        ["Instances", words.countWords(module)],
        ["Driver", words.foreign(module.driver)],
        ["Class", module.class === null ? "" : words.foreign(module.class)],
        ["Port", module.port === null ? "none is checked" : String(module.port)],
        ["Readiness command", command ?? "none", command ? "its arguments are not shown" : ""],
        ["Cooldown", cooldown, "between two restarts of one instance"],
      ].filter(([, value]) => value !== ""),
    );
    setText(this.#title, count(instances.length, "instance"));
    this.#title.hidden = instances.length === 0;
    this.#showRest();
  }

  #showRest() {
    const hidden = this.#shown[0].instances.length - this.#limit;
    this.#more.hidden = hidden <= 0;
    setText(this.#more, `Show more, ${number(Math.max(hidden, 0))} are left`);
  }

  #showMore() {
    const [module, time] = this.#shown;
    const first = this.#limit;
    this.#limit += DRAWN;
    this.#lines.show(module.instances.slice(0, this.#limit), module, time);
    this.#showRest();
    const next = this.#list.children[first];
    next.tabIndex = -1; // the button may be gone, and the focus with it
    next.focus();
  }
}
