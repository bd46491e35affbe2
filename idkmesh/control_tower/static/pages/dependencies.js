// What the service depends on, and how it is with each, in the order of the matrix. See list_page.js for its laws.

import { el } from "../dom.js";
import { dependencyDetail } from "./dependency_detail.js";
import { emptyWords, legend, RefusedMatrix, SELF, selfWatch } from "./dependency_parts.js";
import { DependencyRow } from "./dependency_row.js";
import { DependencyVerdict } from "./dependency_verdict.js";
import { ListPage } from "./list_page.js";
import { LiveFeed } from "./live_feed.js";

export const dependencies = { name: "dependencies", title: "Dependencies", key: "d", open };

const REFUSALS = {
  not_found: "This service knows no dependencies. Start one of this version with idkmesh control-tower.",
};
const CHOICES = {
  state: ["State", { "": "Any", bad: "Not ok", failing: "Failing", unknown: "Unknown", ok: "Ok" }],
  critical: ["Critical", { "": "Any", yes: "Yes", no: "No" }],
};

function open(root, rest) {
  const verdict = new DependencyVerdict(() => view.only({ state: "bad" }));
  const refused = new RefusedMatrix();
  const self = selfWatch();
  const view = new ListPage(root, rest, {
    name: dependencies.name,
    title: dependencies.title,
    noun: ["dependency", "dependencies"],
    feed: (onAnswer) => new LiveFeed("/api/v1/dependencies", REFUSALS, onAnswer),
    detail: dependencyDetail(),
    choices: CHOICES,
    list: el("ol.dependencies.card"),
    above: [refused.element, verdict.element, self],
    below: [legend()],
    rowClass: "dependency",
    row: (name) => new DependencyRow(name),
    matches: (item, { state, critical }) =>
      (state === "" || (state === "bad" ? item.verdict !== "ok" : item.verdict === state)) &&
      (critical === "" || item.critical === (critical === "yes")),
    text: ({ name, probe, detail }) => [name, probe, detail].join("\n"),
    told: (list) => {
      const items = list?.items ?? [];
      refused.update(list?.matrix?.refused ?? null);
      verdict.update(list);
      self.hidden = items.length === 0 || !items.every(({ name, probe }) => probe === "disk" && SELF.has(name));
    },
    empty: emptyWords,
  });
  return view;
}
