// The form "Application check": judges a readiness command as it is typed, and shows the YAML to paste.
//
// Laws: it changes nothing: what is typed goes to the service to be judged and nowhere else; judged first by the
// published schema, then by the service itself, and it says which of them has; an answer to what has been typed over
// since is not shown; a field that nobody has touched is not called wrong.

import { copyButton } from "../copy.js";
import { el, setText, sign } from "../dom.js";
import { count, visible } from "../format.js";
import { isModule } from "../workload_events.js";
import { CheckFields } from "./check_fields.js";
import { CheckJudge } from "./check_judge.js";
import { faultWords, findingWords } from "./check_words.js";
import { toPaste, yamlOf } from "./check_yaml.js";
import { DeclaredModules } from "./declared_modules.js";

// As YAML has a number. Whether it is a whole one is judged by its value: 5.0 is (AR-2.4).
const NUMBER = /^\+?(0|[1-9]\d{0,8})(\.\d{0,9}([eE][+-]\d{1,2})?)?$/;

const START = { name: "", program: "", args: [], timeout: "5" };

let left = START; // what was written when the form was left: found again

export class ApplicationCheck {
  #judge = new CheckJudge(() => this.update());
  #declared = new DeclaredModules(() => this.update());
  #fields = new CheckFields(() => this.#typed(), (name) => nameWords(name, this.#declared.has(name)));
  #outcome = el("p.outcome", { role: "status" }, el("span"));
  #findings = el("ul.findings");
  #yaml = el("pre.block", { tabIndex: 0, role: "group", "aria-label": "The YAML to paste" });
  #copy = copyButton("Copy YAML", () => this.#yaml.textContent);
  #where = el("span");
  #said = "";

  constructor(root, rest) {
    const back = el("a.button", { href: "#/workloads" }, "Back to the modules");
    const result = el(
      "section.card.checked",
      { "aria-labelledby": "checked" },
      el("div.tools", {}, el("h2", { id: "checked" }, "To paste into the declaration"), this.#copy),
      this.#outcome,
      this.#findings,
      this.#yaml,
      el(
        "p.note",
        {},
        this.#where,
        " Then ",
        el("code", {}, "idkmesh modules check FILE"),
        " judges the whole file.",
      ),
    );
    root.append(
      el("div.head", {}, el("h1", {}, "Application check"), back),
      el(
        "p.lead",
        {},
        "A program that runs inside each instance of a module; exit status 0 means ready. The control tower changes " +
          "nothing: it judges what you write, and you paste it.",
      ),
      el("div.inspection", {}, this.#fields.element, result),
    );
    this.#fields.write(left);
    this.go(rest);
  }

  get keys() {
    return {
      "/": { does: "Write the program", run: () => this.#fields.focus() },
      Escape: { does: "Leave the field, back to the modules", run: () => this.#escape() },
    };
  }

  // `+check/NAME` is the form for a module of the list.
  go(rest) {
    const name = rest.split("/")[1] ?? "";
    if (isModule(name)) {
      this.#fields.write({ ...this.#fields.read(), name });
    }
    this.#typed();
  }

  close() {
    left = this.#fields.read();
    this.#judge.close();
    this.#declared.close();
  }

  #typed() {
    const { name, program, args, timeout } = this.#fields.read();
    const timeoutSecs = NUMBER.test(timeout.trim()) ? Number(timeout) : null;
    this.#judge.take({ name, command: [program, ...args], timeoutSecs });
    this.update();
  }

  update() {
    const judge = this.#judge;
    let wrong = 0;
    let unseen = 0;
    for (const field of this.#fields.all) {
      const words = faultWords(field.kind, judge.faultsOf(field.path), field.value, judge.seconds);
      wrong += words === "" ? 0 : 1;
      unseen += words !== "" && !field.touched ? 1 : 0;
      field.show(field.touched ? words : "", judge.findingsOf(field.path));
    }
    this.#fields.limit(judge.mostArguments);
    const [kind, text] = wrong > 0 ? wrongWords(wrong, unseen) : judge.words();
    this.#showOutcome(kind, text);
    const ready = wrong === 0 && judge.isJudged && judge.refused === null;
    const { name } = judge.value;
    const declared = this.#declared.has(name);
    const lines = ready ? toPaste(judge.yaml ?? yamlOf(judge.value), declared) : "";
    setText(this.#yaml, lines || "It stands here as soon as nothing is wrong.");
    setText(this.#where, whereWords(name, declared));
    this.#copy.disabled = !ready;
  }

  #showOutcome(kind, text) {
    if (this.#outcome.dataset.kind !== kind) {
      this.#outcome.dataset.kind = kind;
      this.#outcome.replaceChildren(sign(kind), el("span"));
    }
    setText(this.#outcome.lastElementChild, text);
    const others = this.#judge.findingsOf(null).map((finding) => findingWords(finding));
    const said = others.join("\n");
    if (this.#said !== said) {
      this.#said = said;
      this.#findings.replaceChildren(...others.map((words) => el("li", {}, words)));
    }
    this.#findings.hidden = others.length === 0;
  }

  #escape() {
    if (document.activeElement?.closest("form")) {
      document.activeElement.blur();
    } else {
      location.hash = "#/workloads";
    }
  }
}

// `declared` is null where it is not known.
function nameWords(name, declared) {
  if (declared === null || !isModule(name)) {
    return "Its name in the declaration.";
  }
  return declared
    ? "A module of the declaration."
    : "The declaration of this tower has no module of this name: it is a new one, which needs kind, driver and more.";
}

function whereWords(name, declared) {
  if (declared === null || !isModule(name)) {
    return (
      "Where a module of that name is declared, its readiness alone goes there, in place of what it has; a new one goes " +
      "to the list modules, and needs kind, driver and what belongs to the driver besides."
    );
  }
  return declared
    ? `This line goes into the module ${visible(name)}, indented as its other keys, in place of a readiness that it has.`
    : "This is a new module for the list modules: fill in its kind and its driver, and add what belongs to the driver.";
}

function wrongWords(wrong, unseen) {
  if (wrong === unseen) {
    return ["idle", "Write the module's name and a program: they are judged as you type."];
  }
  const empty = unseen > 0 ? `, ${unseen} to be filled` : "";
  return ["bad", `${count(wrong - unseen, "field has", "fields have")} to be changed${empty}.`];
}
