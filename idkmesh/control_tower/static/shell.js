// What surrounds every page: how old the figures are, what is wrong, which keys there are.

import { el, reconcile, setText, sign } from "./dom.js";
import { duration } from "./format.js";
import { areOn, shown, turn } from "./keys.js";
import { ANSWERS, isStale, removeNote, state, statusAge } from "./state.js";
import { STATES, streamWords } from "./words.js";

const chip = document.getElementById("chip");
const banner = document.getElementById("banner");
const messages = new Map(); // key: element
const CALM = new Set(["connecting", "ready", "locked"]);
const JUDGED = new Set(["not_ready", "starting"]); // what dependencies come to

export function showShell(title, page) {
  const stale = isStale();
  document.body.toggleAttribute("data-stale", stale);
  document.title = `${title} \u00b7 ${STATES[state.service][0]} \u00b7 IDKMesh control tower`;
  showChip(stale);
  showBanner(stale, page);
}

function showChip(stale) {
  const age = statusAge();
  const lasting = state.service === "locked" || age === null;
  chip.hidden = lasting;
  const kind = stale ? "bad" : "good";
  if (chip.dataset.kind !== kind) {
    chip.dataset.kind = kind;
    chip.replaceChildren(sign(kind), el("span"));
  }
  setText(chip.lastElementChild, stale ? `${duration((age ?? 0) / 1000)} old` : "Updated each second");
}

// A line for each thing that is wrong or has happened. A page that has the verdict itself, larger, needs it not twice.
function showBanner(stale, page) {
  const lines = [];
  const [verdict, kind, words] = STATES[state.service];
  const larger = page === "overview" || (page === "dependencies" && JUDGED.has(state.service));
  if (!CALM.has(state.service) && !larger) {
    const where = state.service === "not_ready" ? " The overview names what fails, and where to look." : "";
    lines.push(["service", kind, verdict, state.words || words + where]);
  }
  const age = statusAge();
  const { phase, why } = state.stream;
  if (phase === "waiting" && why && ANSWERS.has(state.service) && !stale && why !== "unavailable") {
    const [short, long] = streamWords({ ...state.stream, until: 0 });
    lines.push(["stream", "warn", short, long]);
  }
  for (const { id, text } of state.notes) {
    lines.push([`note-${id}`, "info", "", text]);
  }
  reconcile(
    banner,
    lines.map((line) => message(...line)),
  );
  for (const [key, made] of messages) {
    if (!made.isConnected) {
      messages.delete(key);
    }
  }
  const grey = messages.get("service");
  if (grey) {
    setText(grey.querySelector(".age"), stale ? `Figures are ${duration((age ?? 0) / 1000)} old.` : "");
  }
}

function message(key, kind, title, text) {
  const existing = messages.get(key);
  if (existing?.dataset.kind === kind) {
    setText(existing.querySelector("strong"), title);
    setText(existing.querySelector(".text"), text);
    return existing;
  }
  const age = el("span.age", { "aria-live": "off" });
  const made = el(
    "div.message",
    { dataset: { kind } },
    sign(kind),
    el("p", {}, el("strong", {}, title), " ", el("span.text", {}, text), " ", age),
  );
  if (key.startsWith("note-")) {
    made.append(el("button.small", { type: "button", onclick: () => removeNote(key.slice(5)) }, "Dismiss"));
  }
  messages.set(key, made);
  return made;
}

export function showKeys() {
  const rows = shown().map(([key, { does, also }]) =>
    el("div", {}, el("dt", {}, ...keyCaps(key), ...(also ? [" or ", el("kbd", {}, also)] : [])), el("dd", {}, does)),
  );
  const on = el("input", { type: "checkbox", checked: areOn(), onchange: () => turn(on.checked) });
  const dialog = el(
    "dialog.keys",
    { "aria-labelledby": "keys-title", onclose: () => dialog.remove() },
    el("h2", { id: "keys-title" }, "Keys"),
    el("dl.rows", {}, ...rows),
    el("label.choice", {}, on, "Keys of one letter, in this tab"),
    el("button.primary", { type: "button", onclick: () => dialog.close() }, "Close"),
  );
  document.body.append(dialog);
  dialog.showModal();
}

function keyCaps(key) {
  return key
    .split(" ")
    .flatMap((part, index) => [...(index ? [" then "] : []), el("kbd", {}, part === "Escape" ? "Esc" : part)]);
}
