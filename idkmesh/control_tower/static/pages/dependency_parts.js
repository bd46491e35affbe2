// What stands around the list: how to read the beats, how to give a matrix, that a new one was refused, why there is
// nothing. Pure, but for nodes.

import { el, setText, sign, svg } from "../dom.js";
import { clockSeconds, shortened, visible } from "../format.js";

// What a control tower watches to which nobody gave a matrix (HL-3.4).
export const SELF = new Set(["disk-room", "disk-reserve"]);

export function selfWatch() {
  return el(
    "p.self.card",
    {},
    "Nobody has said what your program depends on, so the disk under the events is watched alone. Write a probe matrix, as ",
    el("code", {}, "examples/probe-matrix.yaml"),
    " is one, and start with ",
    el("code", {}, "idkmesh control-tower --matrix FILE"),
    ".",
  );
}

// What was read on SIGHUP and refused: `refused` is {at, what}, null while the file in force is the newest.
export class RefusedMatrix {
  #words = el("p");
  element = el("div.refused", { role: "status" });
  #card = el("div.card", {}, sign("warn"), this.#words);

  update(refused) {
    if (!refused) {
      this.element.replaceChildren();
      return;
    }
    const what = visible(shortened(String(refused.what), 300));
    const said = `The matrix file was refused at ${clockSeconds(refused.at)} (${what}). The earlier one is in force.`;
    setText(this.#words, said);
    if (!this.#card.isConnected) {
      this.element.append(this.#card);
    }
  }
}

export function emptyWords(feed, all) {
  if (!feed.list) {
    return feed.trouble || "Asking the service what is known of its dependencies.";
  }
  return all > 0
    ? "No dependency matches. Change the filter."
    : "The matrix names no dependency. Name some in it, and start with idkmesh control-tower --matrix FILE.";
}

const SHAPES = [
  ["ok", "M4 15V5h5V15z", "ok, the higher the slower, up to its timeout"],
  ["failed", "M4 5V15h5V5z", "failed"],
  ["unrun", "M4.5 5.5h4v9h-4z", "could not be run: says nothing"],
  ["gap", "M6.5 1V19", "before it, nothing was known: the result had expired"],
  ["expired", "M4.5 3.5h4v13h-4z", "expired, nothing newer"],
];

export function legend() {
  const items = SHAPES.map(([name, path, words]) => {
    const line = name === "ok" ? "M0 15H13" : name === "failed" ? "M0 5H13" : "M0 10H13";
    const drawn = svg(
      "svg",
      { viewBox: "0 0 13 20", class: "strip sample", "aria-hidden": "true" },
      svg("path", { class: "base", d: line }),
      svg("path", { class: name, d: path }),
    );
    return el("li", {}, drawn, words);
  });
  return el(
    "div.legend.note",
    {},
    el("p", {}, "Each beat is one run of a probe, the newest at the right. Arrow keys walk them."),
    el("ul", {}, ...items),
  );
}
