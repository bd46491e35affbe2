// Is it alive, is it ready, how much room is left, and what was refused.

import { el, reconcile, setAttribute, setText, showRows, sign } from "../dom.js";
import { feed } from "../feed.js";
import { clock, count, number, shortened, visible } from "../format.js";
import { instant, state } from "../state.js";
import { condition, eventWords, isDependency, readyWith, STATES } from "../words.js";
import { dependencyLink } from "./dependency_row.js";
import { Gauge } from "./history.js";
import { routerLine } from "./router_words.js";
import {
  GAUGES,
  limitRows,
  pressure,
  refusalRows,
  refusedLately,
  refusedWords,
  serviceRows,
  showRefusals,
  storeRows,
  totalRows,
} from "./overview_parts.js";

const LATEST = 8;
const NAMED = 6; // of each kind; Dependencies has them all

export const overview = { name: "overview", title: "Overview", key: "o", open };

const section = (title, ...children) => el("section", {}, el("h2", {}, title), ...children);

function open(root) {
  const verdict = new Verdict();
  const gauges = new Map(GAUGES.map(([used, , name, note]) => [used, new Gauge(name, note)]));
  const gaugeRow = el("div.gauges");
  const body = el("tbody", { role: "rowgroup" });
  const table = el(
    "table.refusals.card",
    { role: "table" }, // roles are said: a narrow screen lays the rows out in another way, which would take them away
    el(
      "thead",
      { role: "rowgroup" },
      el(
        "tr",
        { role: "row" },
        ...["Reason", "Times", "What it means, and what to do"].map((text) =>
          el("th", { scope: "col", role: "columnheader" }, text),
        ),
      ),
    ),
    body,
  );
  const none = el("p.empty.card", {}, "Nothing was refused since the start.");
  const totals = el("dl.rows.card");
  const store = el("dl.rows.card");
  const storeSection = section("Event store", store);
  const latest = el("ol.latest.card");
  const latestSection = section("Latest events", latest);
  const service = el("dl.rows.card");
  const limits = el("dl.rows.card.wide");
  const facts = el(
    "div.facts.told",
    { hidden: true },
    section("In use now", gaugeRow),
    el(
      "div.columns",
      {},
      el("div", {}, section("Refused since the start", table, none), latestSection),
      el("div", {}, section("Served since the start", totals), storeSection, section("Service", service)),
    ),
    section("Limits in force", limits),
  );
  root.append(verdict.element, facts);

  function update() {
    verdict.update();
    const { status, samples } = state;
    facts.hidden = !status;
    if (!status) {
      return;
    }
    const { operations } = status;
    const { usage = {}, limits: bounds = {}, peaks = {} } = operations;
    const now = instant();
    const refusals = refusedLately(samples, now);
    const there = GAUGES.filter(([used, limit]) => used in usage && limit in bounds);
    reconcile(
      gaugeRow,
      there.map(([used]) => gauges.get(used).element),
    );
    for (const [used, limit] of there) {
      gauges.get(used).show(
        usage[used],
        bounds[limit],
        samples.map((sample) => ({ at: sample.at, value: sample.peak?.[used] ?? sample.usage[used] ?? null })),
        now,
        { peak: peaks.last_minute?.[used] ?? null, refused: used === "in_flight" ? refusals : 0 },
      );
    }
    const refused = refusalRows(operations);
    table.hidden = refused.length === 0;
    none.hidden = !table.hidden;
    showRefusals(body, refused);
    showRows(totals, totalRows(operations));
    showRows(store, storeRows(operations));
    storeSection.hidden = !operations.events;
    showRows(service, serviceRows(status));
    showRows(limits, limitRows(operations));
    latestSection.hidden = feed.events.length === 0;
    showLatest(latest);
  }

  return { update };
}

// The verdict of a glance, the probes behind it, and what stands in the way.
class Verdict {
  #sign = el("span.lamp", { "aria-hidden": "true" });
  #title = el("h1", { id: "verdict", "aria-live": "polite" });
  #words = el("p", { id: "explanation" });
  #why = el("ul.why");
  #depends = el("p.depends.told");
  #supervises = el("p.supervises.told");
  #routes = el("p.routes.told");
  #probes = el("dl.probes.told");
  #kind = "";

  constructor() {
    const beside = [this.#depends, this.#supervises, this.#routes];
    const words = el("div.words", {}, this.#title, this.#words, this.#why, ...beside);
    this.element = el("section.verdict.card", { "aria-labelledby": "verdict" }, this.#sign, words, this.#probes);
  }

  update() {
    const { verdict, kind, words } = judged();
    setAttribute(this.element, "data-kind", kind);
    if (this.#kind !== kind) {
      this.#kind = kind;
      this.#sign.replaceChildren(sign(kind));
    }
    setText(this.#title, verdict);
    const pressed = state.service === "ready" ? noRoom() : "";
    setText(this.#words, state.words || (pressed ? `The service answers. ${pressed}` : words));
    this.#showWhy();
    showDepends(this.#depends);
    showSupervises(this.#supervises);
    showRoutes(this.#routes);
    showRows(this.#probes, this.#rows());
  }

  #showWhy() {
    const said = reasons(state.ready);
    this.#why.hidden = said.length === 0;
    const text = said.map((parts) => parts.join("")).join("\n");
    if (this.#why.dataset.text !== text) {
      this.#why.dataset.text = text;
      this.#why.replaceChildren(...said.map(([name, ...words]) => el("li", {}, dependencyLink(name), ...words)));
    }
  }

  #rows() {
    const { alive, ready, service } = state;
    const draining = service === "draining" || ready?.code === "shutting_down";
    const readiness = ready ? (ready.ok ? "yes" : "no") : "no answer";
    return [
      ["Alive", alive === null ? "no answer" : alive ? "yes" : "no"],
      ["Ready", readiness],
      ["Draining", draining ? "yes" : ready ? "no" : "unknown"],
    ];
  }
}

// The same sign and words as on Dependencies: the service is ready, and something is worth a look.
function judged() {
  const [name, sign, words] = STATES[state.service];
  const told = state.ready?.warningsTotal ?? state.status?.operations?.health?.readiness?.warnings_total ?? 0;
  const [verdict, kind] = readyWith(name, sign, state.service === "ready" ? told : 0);
  return { verdict, kind, words };
}

// What keeps the verdict from saying that there is room: who found none of late, and where there is little.
function noRoom() {
  const { samples, status } = state;
  return [refusedWords(refusedLately(samples, instant())), pressure(status?.operations)].filter(Boolean).join(" ");
}

// What stands against readiness or is worth a look: [name, words].
function reasons(ready) {
  const { failing = [], failingTotal = 0, warnings = [], warningsTotal = 0 } = ready ?? {};
  const begins = ready?.status === "starting"; // what has not been asked yet does not fail
  const named = (names, fails) =>
    names.slice(0, NAMED).map((name) => {
      const verb = !isDependency(name) ? (fails ? "fails." : "warns.") : begins ? "is not ok yet." : "is not ok.";
      return [String(name), ` ${verb} ${condition(name, fails)}`];
    });
  const more = (names, total, word) => (total > NAMED ? [[`${number(total - NAMED)} more`, ` ${word}`]] : []);
  return [
    ...named(failing, true),
    ...more(failing, failingTotal, "are not ok."),
    ...named(warnings, false),
    ...more(warnings, warningsTotal, "are worth a look."),
  ];
}

// Workloads in short, with a way to them, where modules are declared.
function showSupervises(target) {
  const { modules, lease, platforms = [], instances = {} } = state.status?.operations?.workloads ?? {};
  target.hidden = !(modules > 0);
  const { healthy = 0, unhealthy = 0, unknown = 0 } = instances;
  const how = [
    lease?.role === "standby" ? "on standby" : "",
    unhealthy > 0 ? count(unhealthy, "instance unhealthy", "instances unhealthy") : "",
    unknown > 0 ? count(unknown, "instance unknown", "instances unknown") : "",
    // Of how many: a module of which no instance is seen is not told of here, so it is never "all".
    healthy > 0 && unhealthy + unknown === 0 ? count(healthy, "instance healthy", "instances healthy") : "",
    lease?.held && healthy + unhealthy + unknown === 0 ? "no instance seen" : "",
    ...platforms.filter(({ fault }) => fault !== null).map(({ name }) => `${visible(name)} tells nothing`),
  ];
  const words = [count(modules ?? 0, "module"), ...how].filter(Boolean).join(", ");
  if (target.textContent !== words) {
    target.replaceChildren(el("a", { href: "#/workloads" }, words));
  }
}

// The router beside the tower, which the tower's own readiness says nothing of, with a way to what it observes.
function showRoutes(target) {
  const { router = null, operations } = state.status ?? {};
  target.hidden = !router;
  if (!router) {
    return;
  }
  const [kind, words] = routerLine(router, operations);
  if (target.dataset.said !== `${kind} ${words}`) {
    target.dataset.said = `${kind} ${words}`;
    target.replaceChildren(sign(kind), el("a", { href: "#/topology" }, words));
  }
}

function showDepends(target) {
  const { dependencies: all, readiness } = state.status?.operations?.health ?? {};
  target.hidden = !Number.isInteger(all);
  const well = all > 0 && readiness?.failing_total === 0 && readiness?.warnings_total === 0;
  const words = `${count(all ?? 0, "dependency", "dependencies")}${well ? ", all ok" : ""}`;
  if (target.textContent !== words) {
    target.replaceChildren(el("a", { href: "#/dependencies" }, words));
  }
}

function showLatest(list) {
  const wanted = feed.events.slice(0, LATEST);
  const there = [...list.children].map((item) => item.dataset.id);
  if (wanted.map(({ id }) => id).join() === there.join()) {
    return;
  }
  list.replaceChildren(
    ...wanted.map((event) => {
      const { title, kind, text } = eventWords(event);
      const link = el("a", { href: `#/events/${event.id}` }, visible(title));
      return el(
        "li",
        { dataset: { id: event.id } },
        sign(kind),
        el("time", { dateTime: event.time }, clock(event.time)),
        link,
        el("span.text", {}, visible(shortened(text, 160))),
      );
    }),
  );
}
