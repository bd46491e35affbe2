// Keys, without a modifier, while nobody is typing.
//
// Laws: a key of the browser or of a screen reader's own (with Ctrl, Alt or Meta) is never taken; in a field only
// Escape is; "g" waits a moment for its second key; who dictates or leans on a key can turn all of them off but Escape
// (WCAG 2.1.4), for this tab.

const PAIR = 1200; // ms between "g" and the next key
const OFF = "idkmesh-keys"; // in sessionStorage while they are off
const TYPING = new Set(["INPUT", "TEXTAREA", "SELECT"]);

let bindings = () => ({});
let since = -Infinity;

// `current()` gives the keys in force: {"p": {does: "Pause", run}, "g o": ...}.
export function listen(current) {
  bindings = current;
  document.addEventListener("keydown", pressed);
}

export const shown = () => Object.entries(bindings()).filter(([, { does }]) => does);

export const areOn = () => sessionStorage.getItem(OFF) === null;

export function turn(on) {
  if (on) {
    sessionStorage.removeItem(OFF);
  } else {
    sessionStorage.setItem(OFF, "off");
  }
}

export const isTyping = (target) => TYPING.has(target?.tagName) && !["checkbox", "radio"].includes(target.type);

function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || document.querySelector("dialog[open]")) {
    return;
  }
  if ((isTyping(event.target) || !areOn()) && event.key !== "Escape") {
    return;
  }
  const paired = performance.now() - since < PAIR;
  since = event.key === "g" ? performance.now() : -Infinity;
  const bound = bindings()[paired ? `g ${event.key}` : event.key];
  if (bound) {
    event.preventDefault();
    bound.run();
  }
}
