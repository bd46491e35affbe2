// One module in the list, and its instances under it. The row stays the same element.

import { el, reconcile, setAttribute, setText } from "../dom.js";
import { count, number, visible } from "../format.js";
import { isModule } from "../workload_events.js";
import { Sign } from "./list_parts.js";
import * as words from "./module_words.js";

const SHOWN = 5; // instances of each module; the panel has all

// A link to a module; text alone where the name has not the form of one.
export function moduleLink(name, text = name) {
  const shown = el("bdi", {}, visible(String(text)));
  return isModule(name) ? el("a", { href: `#/workloads/${name}`, dataset: { module: name } }, shown) : shown;
}

// How far something has come, drawn; the words beside it say the same.
export class Bar {
  element = el("p.step");
  #text = el("span.words");
  #fill = el("span.fill");
  #track = el("span.track", { "aria-hidden": "true" }, this.#fill);

  constructor() {
    this.element.append(this.#track, this.#text);
  }

  show(step) {
    this.element.hidden = step === null;
    if (step) {
      setText(this.#text, step.text);
      setAttribute(this.element, "data-kind", step.kind);
      this.#track.hidden = step.share === null;
      const share = `${Math.round(Math.min(Math.max(step.share ?? 0, 0), 1) * 100)}%`;
      if (this.#fill.style.width !== share) {
        this.#fill.style.width = share;
      }
    }
  }
}

// A check with its sign.
class Check {
  element;
  #sign = new Sign();
  #word = el("b");
  #why = el("bdi");

  constructor(name) {
    this.element = el("p.check", {}, this.#sign.element, el("span", {}, `${name} `, this.#word, " ", this.#why));
  }

  show(check, there) {
    this.element.hidden = !there && !check;
    const [word, kind, why] = words.checkWords(check, there);
    this.#sign.show(kind);
    setText(this.#word, why ? `${word}:` : word);
    setText(this.#why, why);
  }
}

// An instance: how it is, what its checks say, what comes next.
export class InstanceLine {
  element;
  #sign = new Sign();
  #name = el("bdi");
  #state = el("b");
  #why = el("bdi");
  #port = new Check("Port");
  #command = new Check("Command");
  #hysteresis = new Bar();
  #restart = new Bar();
  #cooldown = el("span.tag.figure");
  #restarts = el("span.tag.figure");

  constructor(tag = "li.instance") {
    this.element = el(
      tag,
      {},
      this.#sign.element,
      el("div.who", {}, el("p.called", {}, this.#name), el("p.state", {}, this.#state, " ", this.#why)),
      el("div.checks", {}, this.#port.element, this.#command.element),
      el(
        "div.steps",
        {},
        this.#hysteresis.element,
        this.#restart.element,
        el("p.hints", {}, this.#cooldown, this.#restarts),
      ),
    );
  }

  show(instance, module, { passed }) {
    this.#sign.show(words.signOf(instance));
    setAttribute(this.element, "data-health", words.signOf(instance));
    setText(this.#name, words.foreign(instance.name));
    const [state, why] = words.stateWords(instance, passed);
    setText(this.#state, why ? `${state}:` : state);
    setText(this.#why, why);
    this.#port.show(instance.port_check, module.port !== null);
    this.#command.show(instance.readiness_command, module.readiness !== null);
    this.#hysteresis.show(words.hysteresis(instance));
    this.#restart.show(words.restartWords(instance, module, passed));
    const cooldown = words.cooldownWords(instance, passed);
    setText(this.#cooldown, cooldown);
    this.#cooldown.hidden = cooldown === "";
    setText(this.#restarts, words.restartsWords(instance));
    this.#restarts.hidden = instance.restarts === 0;
    this.#restarts.parentElement.hidden = cooldown === "" && instance.restarts === 0;
  }
}

// Lines of instances that stay where they are.
export class InstanceLines {
  #made = new Map(); // name: what shows it
  #make;
  #list;

  constructor(list, make) {
    this.#list = list;
    this.#make = make;
  }

  show(instances, module, time) {
    const names = new Set(instances.map(({ name }) => name));
    for (const name of this.#made.keys()) {
      if (!names.has(name)) {
        this.#made.delete(name);
      }
    }
    const nodes = instances.map((instance) => {
      const line = this.#made.get(instance.name) ?? this.#make(instance.name);
      this.#made.set(instance.name, line);
      line.show(instance, module, time);
      return line.element;
    });
    reconcile(this.#list, nodes);
  }
}

export class ModuleRow {
  element;
  link;
  #sign = new Sign();
  #kind = el("span.tag");
  #driver = el("span.tag");
  #counts = el("span.size");
  #list = el("ol.instances");
  #lines = new InstanceLines(this.#list, () => new InstanceLine());
  #rest = el("p.rest.note");

  constructor(name) {
    this.link = moduleLink(name);
    this.element = el(
      "li.module",
      {},
      el("p.name", {}, this.#sign.element, this.link, this.#kind, this.#driver, this.#counts),
      this.#list,
      this.#rest,
    );
  }

  show(module, _list, chosen, time) {
    this.#sign.show(words.moduleSign(module));
    setAttribute(this.element, "data-health", words.moduleSign(module));
    setText(this.#kind, words.foreign(module.module_kind));
    setText(this.#driver, words.foreign(module.driver));
    setText(this.#counts, words.countWords(module));
    if (chosen) {
      this.link.setAttribute("aria-current", "true");
    } else {
      this.link.removeAttribute("aria-current");
    }
    const shown = someOf(module.instances);
    this.#lines.show(shown, module, time);
    this.#list.hidden = shown.length === 0;
    const hidden = module.instances.length - shown.length;
    const others = module.instances.filter(({ health }) => health !== "healthy").length;
    const bad = others - shown.filter(({ health }) => health !== "healthy").length;
    const failing = module.instances.filter(words.failsNow).length - shown.filter(words.failsNow).length;
    const calm = failing > 0 ? `all healthy, ${count(failing, "of them fails now", "of them fail now")}` : "all healthy";
    const how = bad > 0 ? `${number(bad)} of them not healthy` : calm;
    setText(this.#rest, hidden > 0 ? `and ${number(hidden)} more, ${how}: open the module to see them` : "");
    this.#rest.hidden = hidden === 0;
  }
}

// The first of them in the platform's order, but notable ones before all others: what is hidden is well if it can be.
function someOf(instances) {
  if (instances.length <= SHOWN) {
    return instances;
  }
  const others = instances.filter((instance) => !words.isNotable(instance));
  const wanted = new Set([...instances.filter(words.isNotable), ...others].slice(0, SHOWN));
  return instances.filter((instance) => wanted.has(instance));
}
