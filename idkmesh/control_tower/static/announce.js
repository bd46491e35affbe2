// Says something to whoever listens to the page rather than looks at it: one short line, when something was done.

import { setText } from "./dom.js";

const CALM = 600; // ms: what changes with each key is said once, at its end
let timer = 0;

export function announce(text, wait = 0) {
  clearTimeout(timer);
  const region = document.getElementById("said");
  // The same words again are a change only if they were away.
  timer = setTimeout(() => {
    setText(region, "");
    timer = setTimeout(() => setText(region, text), 50);
  }, wait);
}

export const announceLater = (text) => announce(text, CALM);
