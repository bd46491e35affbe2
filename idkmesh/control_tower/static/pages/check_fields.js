// The fields of the form "Application check": a name, a program, its arguments, a time limit, each with its fault.

import { announce } from "../announce.js";
import { el, setText } from "../dom.js";
import { count } from "../format.js";
import { findingWords } from "./check_words.js";

const EMPTY = 'It is empty, and the program gets it as such, "". Remove it if none is meant.';
const PASTED = /[\r\n]/; // what a browser would take out of a field without a word

// One field. `kind` is name, program, argument or timeout, `path` where its value stands in what is judged.
class CheckField {
  element;
  input;
  kind;
  path;
  touched = false;
  #error = el("p.error");
  #note = el("p.note");
  #noteOf;
  #lost = ""; // what is said of what was pasted

  // `note` is said below it: a text, or what gives one for a value.
  constructor(kind, path, label, { note = "", tool = null, ...properties }, onInput) {
    this.kind = kind;
    this.path = path;
    const id = `check-${path.replaceAll("/", "-")}`;
    this.#note.id = `${id}-note`;
    this.#error.id = `${id}-error`;
    this.#noteOf = typeof note === "function" ? note : () => note;
    this.input = el("input", {
      id,
      type: "text",
      autocomplete: "off",
      spellcheck: false,
      autocapitalize: "off",
      "aria-describedby": `${id}-note ${id}-error`,
      ...properties,
      oninput: () => {
        this.touched = true;
        this.#lost = "";
        onInput();
      },
      onblur: () => {
        this.touched ||= this.value !== "";
        onInput();
      },
      onpaste: (event) => this.#pasted(event),
    });
    const row = el("div.row", {}, this.input, tool);
    this.element = el("div.field", {}, el("label", { htmlFor: id }, label), row, this.#note, this.#error);
  }

  get value() {
    return this.input.value;
  }

  // `words` of the schema; `findings` of the service, which counts where the schema finds nothing.
  show(words, findings) {
    const said = words || findings.map(findingWords).join(" ");
    setText(this.#error, said);
    this.#error.hidden = said === "";
    setText(this.#note, this.#lost || this.#noteOf(this.value));
    this.#note.hidden = this.#note.textContent === "";
    this.input.setAttribute("aria-invalid", String(said !== ""));
  }

  #pasted(event) {
    if (PASTED.test(event.clipboardData?.getData("text") ?? "")) {
      // After the input of the paste itself, which shows the usual note.
      setTimeout(() => {
        this.#lost = "What was pasted had line ends, which no field takes: look whether something is missing.";
        setText(this.#note, this.#lost);
        this.#note.hidden = false;
        announce(this.#note.textContent);
      });
    }
  }
}

export class CheckFields {
  element;
  #changed;
  #name;
  #program;
  #timeout;
  #arguments = [];
  #list = el("div.arguments");
  #add = el("button.small", { type: "button", onclick: () => this.#more() }, "Add an argument");
  #left = el("span.note");
  #most = 8;

  // `nameNote` says of a module's name what is known of it.
  constructor(changed, nameNote) {
    this.#changed = changed;
    this.#name = new CheckField("name", "name", "Module", { note: nameNote }, changed);
    const program = { note: "By name or path in the instance; no shell.", placeholder: "/usr/bin/pg_isready" };
    this.#program = new CheckField("program", "command/0", "Program", program, changed);
    const limit = { note: "Then it is killed, and has failed.", inputMode: "numeric", size: 4 };
    this.#timeout = new CheckField("timeout", "timeoutSecs", "Time limit in seconds", limit, changed);
    this.element = el(
      "form.card.check-form",
      { noValidate: true, onsubmit: (event) => event.preventDefault(), "aria-label": "Application check" },
      this.#name.element,
      this.#program.element,
      el(
        "fieldset.list",
        {},
        el("legend", {}, "Arguments, each as the program gets it: no shell reads them"),
        this.#list,
        el("div.row", {}, this.#add, this.#left),
      ),
      this.#timeout.element,
    );
  }

  get all() {
    return [this.#name, this.#program, ...this.#arguments, this.#timeout];
  }

  focus() {
    this.#program.input.focus();
  }

  read() {
    const args = this.#arguments.map(({ value }) => value);
    return { name: this.#name.value, program: this.#program.value, args, timeout: this.#timeout.value };
  }

  write({ name, program, args, timeout }) {
    for (const [field, value] of [[this.#name, name], [this.#program, program], [this.#timeout, timeout]]) {
      field.input.value = value;
      field.touched ||= value !== "";
    }
    this.#draw(args);
  }

  limit(most) {
    this.#most = most;
    this.#add.disabled = this.#arguments.length >= most;
    const room = most - this.#arguments.length;
    setText(this.#left, room > 0 ? `${count(room, "more", "more")} at most` : "No more than these");
  }

  #draw(args) {
    this.#arguments = args.map((text, index) => {
      const label = `Argument ${index + 1}`;
      const remove = el("button.small", { type: "button", onclick: () => this.#remove(index) }, "Remove");
      remove.setAttribute("aria-label", `Remove argument ${index + 1}`);
      const note = (value) => (value === "" ? EMPTY : "");
      const field = new CheckField("argument", `command/${index + 1}`, label, { note, tool: remove }, this.#changed);
      field.input.value = text;
      field.touched = true;
      return field;
    });
    this.#list.replaceChildren(...this.#arguments.map(({ element }) => element));
  }

  #more() {
    if (this.#arguments.length < this.#most) {
      this.#draw([...this.read().args, ""]);
      this.#changed();
      this.#arguments.at(-1).input.focus();
    }
  }

  #remove(index) {
    this.#draw(this.read().args.filter((_, at) => at !== index));
    this.#changed();
    announce(`Argument ${index + 1} was removed`);
    (this.#arguments[Math.min(index, this.#arguments.length - 1)]?.input ?? this.#add).focus();
  }
}
