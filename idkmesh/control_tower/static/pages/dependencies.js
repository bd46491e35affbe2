// What the service depends on, and how it is with each.
//
// Laws: the order is the matrix's, whatever fails: who wrote it knows where to look, and no row moves away from a
// reader; what fails is named above, and chosen by a filter; a row with the focus stays while it has it; what is no
// longer renewed is grey and has an age.

import { announceLater } from "../announce.js";
import { el, reconcile, setAttribute, setText, sign } from "../dom.js";
import { count, duration, number } from "../format.js";
import { instant, state } from "../state.js";
import { DependencyDetail } from "./dependency_detail.js";
import { DependencyFeed } from "./dependency_feed.js";
import { DependencyRow } from "./dependency_row.js";
import { DependencyVerdict } from "./dependency_verdict.js";
import { emptyWords, legend, RefusedMatrix, SELF, selfWatch } from "./dependency_parts.js";

export const dependencies = {
  name: "dependencies",
  title: "Dependencies",
  key: "d",
  open: (root, rest) => new DependenciesView(root, rest),
};

const ROWS = 100; // drawn at first, and again with each "more"
const NARROW = matchMedia("(max-width: 60rem)"); // as in events.css
const CHOICES = {
  state: ["State", { "": "Any", bad: "Not ok", failing: "Failing", unknown: "Unknown", ok: "Ok" }],
  critical: ["Critical", { "": "Any", yes: "Yes", no: "No" }],
};

let left = {}; // what was searched and chosen when the page was left: it is found again

class DependenciesView {
  #feed = new DependencyFeed(() => this.update());
  #verdict = new DependencyVerdict(() => this.#showBad());
  #refused = new RefusedMatrix();
  #detail = new DependencyDetail();
  #live = el("p.live");
  #text = el("input", {
    type: "search",
    id: "filter",
    autocomplete: "off",
    spellcheck: false,
    oninput: () => this.#filtered(),
  });
  #choices = Object.fromEntries(
    Object.entries(CHOICES).map(([key, [, values]]) => [
      key,
      el(
        "select",
        { id: `filter-${key}`, onchange: () => this.#filtered() },
        ...Object.entries(values).map(([value, name]) => new Option(name, value)),
      ),
    ]),
  );
  #filters;
  #summary = el("p.summary", { id: "summary" });
  #self = selfWatch();
  #empty = el("p.empty.card", { id: "empty" });
  #rows = new Map(); // name: DependencyRow
  #ol = el("ol.dependencies.card");
  #more = el("button", { type: "button", id: "more", onclick: () => this.#showMore() }, "Show more");
  #legend = legend();
  #list = el("div.list");
  #split = el("div.split");
  #told = el("div.told");
  #limit = ROWS;
  #unseen = false; // whether the detail was opened and is not drawn yet
  #turned = () => this.#arrange();

  constructor(root, rest) {
    const fields = Object.entries(CHOICES).map(([key, [name]]) =>
      el("label", { htmlFor: `filter-${key}` }, name, this.#choices[key]),
    );
    this.#filters = el("search.filters", {}, el("label.grow", { htmlFor: "filter" }, "Search", this.#text), ...fields);
    this.#list.append(this.#empty, this.#ol, el("div.more", {}, this.#more), this.#legend);
    this.#told.append(this.#refused.element, this.#verdict.element, this.#self, this.#filters, this.#summary, this.#split);
    root.append(el("div.head", {}, el("h1", {}, "Dependencies"), this.#live), this.#told);
    this.#arrange();
    NARROW.addEventListener("change", this.#turned);
    this.#text.value = left.text ?? "";
    for (const [key, select] of Object.entries(this.#choices)) {
      select.value = left[key] ?? "";
    }
    this.go(rest);
  }

  get keys() {
    return {
      "/": { does: "Search", run: () => this.#text.focus() },
      j: { does: "Next dependency", run: () => this.#move(1) },
      k: { does: "Dependency before", run: () => this.#move(-1) },
      Escape: { does: "Close the dependency, leave the search", run: () => this.#escape() },
    };
  }

  go(rest) {
    const before = this.#detail.name;
    if (rest !== before) {
      this.#detail.open(rest);
    }
    setAttribute(this.#split, "data-open", String(rest !== ""));
    this.#unseen = rest !== "" && rest !== before;
    this.update();
    if (rest === "" && before) {
      (this.#rows.get(before)?.link ?? document.getElementById("main")).focus();
    } else if (rest && rest !== before) {
      this.#detail.element.focus({ preventScroll: true });
    }
  }

  close() {
    const choices = Object.entries(this.#choices).map(([key, select]) => [key, select.value]);
    left = { text: this.#text.value, ...Object.fromEntries(choices) };
    NARROW.removeEventListener("change", this.#turned);
    this.#feed.close();
  }

  // The order of the document is that of the eye: the open one stands above the list where there is one column.
  #arrange() {
    const parts = [this.#list, this.#detail.element];
    reconcile(this.#split, NARROW.matches ? parts.reverse() : parts);
  }

  update() {
    const { list } = this.#feed;
    const time = this.#time();
    const items = list?.items ?? [];
    const shown = items.filter(this.#filter());
    this.#showLive();
    this.#refused.update(list?.matrix?.refused ?? null);
    this.#verdict.update(list);
    this.#self.hidden = items.length === 0 || !items.every(({ name, probe }) => probe === "disk" && SELF.has(name));
    this.#filters.hidden = this.#legend.hidden = items.length === 0;
    this.#showRows(shown, time);
    const open = items.find(({ name }) => name === this.#detail.name);
    this.#detail.update(open ?? null, list, time);
    const all = count(items.length, "dependency", "dependencies");
    setText(this.#summary, shown.length < items.length ? `${number(shown.length)} of ${all} match` : all);
    this.#summary.hidden = items.length === 0;
    this.#empty.hidden = shown.length > 0;
    setText(this.#empty, emptyWords(this.#feed, items.length));
    this.#bringIntoSight();
  }

  // Where there is one column the open one stands above the list, and who chose a row is far below. It waits for the
  // list: before that the page is too short to be scrolled.
  #bringIntoSight() {
    if (this.#unseen && this.#feed.list) {
      this.#unseen = false;
      if (NARROW.matches) {
        this.#detail.element.scrollIntoView({ block: "start" });
      }
    }
  }

  // When it is for the reader: {passed, now}, the seconds since the answer and the wall clock of the service in ms, by
  // which it is counted since when something is so. What is old stands still: nobody knows whether it went on.
  #time() {
    const age = this.#feed.isOld() ? 0 : (this.#feed.age() ?? 0);
    const told = new Date(state.status?.generated_at).getTime();
    const answered = Number.isNaN(told) ? Date.now() - (instant() - this.#feed.at) : told + this.#feed.at - state.statusAt;
    return { passed: age / 1000, now: answered + age };
  }

  #showRows(shown, time) {
    const status = this.#feed.list?.readiness.status;
    const drawn = shown.slice(0, this.#limit);
    const names = new Set(this.#feed.list?.items.map(({ name }) => name));
    for (const name of this.#rows.keys()) {
      if (!names.has(name)) {
        this.#rows.delete(name);
      }
    }
    const nodes = drawn.map((item) => {
      const row = this.#rows.get(item.name) ?? new DependencyRow(item.name);
      this.#rows.set(item.name, row);
      row.show(item, status, item.name === this.#detail.name, time);
      return row.element;
    });
    reconcile(this.#ol, nodes);
    this.#ol.hidden = nodes.length === 0;
    this.#more.hidden = drawn.length === shown.length;
  }

  #filter() {
    const text = this.#text.value.trim().toLowerCase();
    const { state: wanted, critical } = Object.fromEntries(
      Object.entries(this.#choices).map(([key, select]) => [key, select.value]),
    );
    const held = document.activeElement?.closest(".dependency");
    return (item) =>
      (held && this.#rows.get(item.name)?.element === held) ||
      ((wanted === "" || (wanted === "bad" ? item.verdict !== "ok" : item.verdict === wanted)) &&
        (critical === "" || item.critical === (critical === "yes")) &&
        (text === "" || [item.name, item.probe, item.detail].join("\n").toLowerCase().includes(text)));
  }

  #filtered() {
    this.update();
    announceLater(this.#summary.textContent);
  }

  #showLive() {
    const feed = this.#feed;
    const now = instant();
    const old = feed.isOld(now);
    const trouble = feed.words(now);
    const kind = trouble || old ? "warn" : feed.list ? "good" : "idle";
    if (this.#live.dataset.kind !== kind) {
      this.#live.dataset.kind = kind;
      this.#live.replaceChildren(sign(kind), el("span"));
    }
    this.#told.toggleAttribute("data-stale", old);
    const asOf = feed.list && (old || trouble) ? `Shown as of ${duration(feed.age(now) / 1000)} ago.` : "";
    const pace = feed.pace < 1500 ? "Live" : `Live, asked each ${duration(Math.round(feed.pace / 1000))}`;
    const calm = feed.list ? (old ? "" : pace) : "Asking the service.";
    setText(this.#live.lastElementChild, [trouble || calm, asOf].filter(Boolean).join(" "));
  }

  #showBad() {
    this.#text.value = "";
    this.#choices.state.value = "bad";
    this.#choices.critical.value = "";
    this.#filtered();
  }

  #showMore() {
    const first = this.#limit;
    this.#limit += ROWS;
    this.update();
    this.#ol.children[first]?.querySelector("a")?.focus(); // the button may be gone, and the focus with it
  }

  #move(step) {
    const links = [...this.#ol.querySelectorAll(".name a")];
    const row = document.activeElement?.closest(".dependency");
    const at = links.findIndex((link) => (row ? row.contains(link) : link.hasAttribute("aria-current")));
    const link = links[Math.min(Math.max(at < 0 ? 0 : at + step, 0), links.length - 1)];
    link?.focus();
    link?.closest(".dependency").scrollIntoView({ block: "nearest" });
  }

  #escape() {
    if (document.activeElement === this.#text) {
      this.#text.value = "";
      this.#text.blur();
      this.update();
    } else if (this.#detail.name) {
      location.hash = "#/dependencies";
    }
  }
}
