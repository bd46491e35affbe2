// A command or a document to take along: shown whole, copied by a button that says whether it worked.

import { announce } from "./announce.js";
import { curl } from "./api.js";
import { el, setText } from "./dom.js";

export function copyButton(label, text) {
  const button = el("button.small", { type: "button", onclick: copy }, label);
  let timer = 0;

  async function copy() {
    let said = "Copied";
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
    } catch {
      said = "The browser refused: select the text";
    }
    setText(button, said);
    announce(said);
    clearTimeout(timer);
    timer = setTimeout(() => setText(button, label), 1800);
  }

  return button;
}

// A long text that scrolls in a box of its own, so that the page does not.
export function block(text, label) {
  return el("pre.block", { tabIndex: 0, role: "group", "aria-label": label }, text);
}

// How to fetch what a page shows at `address` again: as a command, and as a link. `filter` is what a shell does with the
// answer where that has more than is shown.
export function fetchAgain(path, address, filter = "") {
  const command = `${curl(path)}${filter}`;
  return [
    el(
      "div.tools",
      {},
      el("h3", {}, "Fetch it again"),
      copyButton("Copy as curl", command),
      copyButton("Copy link", `${location.origin}/#/${address}`),
    ),
    block(command, "The same as a curl command"),
  ];
}
