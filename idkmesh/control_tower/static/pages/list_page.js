// A page that is a list of named things, renewed while somebody looks, one of which may be open beside it.
//
// Laws: the order is the document's, whatever fails: who wrote it knows where to look, and no row moves away from a
// reader; what is bad is found by a filter; a row with the focus stays while it has it; what is no longer renewed is
// grey and has an age.

import { announceLater } from "../announce.js";
import { el, reconcile, setAttribute, setText, sign } from "../dom.js";
import { count, duration, number } from "../format.js";
import { instant, state } from "../state.js";

const ROWS = 100; // drawn at first, and again with each "more"
const NARROW = matchMedia("(max-width: 60rem)"); // as in events.css

const NOTHING = { items: [] }; // the list of a service that has none

const left = {}; // by page, what was searched and chosen when it was left: it is found again

// What a page says of itself:
//
//   name, title        of the page                      noun     [one, many] of what is listed
//   feed(onAnswer)     a LiveFeed                       detail   {element, name, open(name), update(item, list, time)}
//   choices            {key: [name, {value: words}]}    list     an `ol`
//   above, below       nodes around the list            tools    nodes in the head, or none
//   row(name)          {element, link, show(item, list, chosen, time)}, whose element has the class `rowClass`
//   matches(item, chosen), text(item)                   whether it is chosen; where the search looks
//   told(list, time), empty(feed, all)                  shows what is above; says why there is no row
//   closed()                                            ends what the page began, if anything
//   most                                                how many rows are drawn at all, if there is an end
export class ListPage {
  #page;
  #feed;
  #live = el("p.live");
  #text = el("input", {
    type: "search",
    id: "filter",
    autocomplete: "off",
    spellcheck: false,
    oninput: () => this.filtered(),
  });
  #choices;
  #filters;
  #summary = el("p.summary", { id: "summary" });
  #empty = el("p.empty.card", { id: "empty" });
  #rows = new Map(); // by name
  #more = el("button", { type: "button", id: "more", onclick: () => this.#showMore() });
  #beyond = el("p.note");
  #list = el("div.list");
  #split = el("div.split");
  #told = el("div.told");
  #limit = ROWS;
  #unseen = false; // whether the detail was opened and is not drawn yet
  #turned = () => this.#arrange();

  constructor(root, rest, page) {
    this.#page = page;
    this.#feed = page.feed(() => this.update());
    this.#choices = selects(page.choices, () => this.filtered());
    const fields = Object.entries(page.choices).map(([key, [name]]) =>
      el("label", { htmlFor: `filter-${key}` }, name, this.#choices[key]),
    );
    this.#filters = el("search.filters", {}, el("label.grow", { htmlFor: "filter" }, "Search", this.#text), ...fields);
    this.#list.append(this.#empty, page.list, el("div.more", {}, this.#more, this.#beyond), ...page.below);
    this.#told.append(...page.above, this.#filters, this.#summary, this.#split);
    root.append(el("div.head", {}, el("h1", {}, page.title), this.#live, ...(page.tools ?? [])), this.#told);
    this.#arrange();
    NARROW.addEventListener("change", this.#turned);
    const before = left[page.name] ?? {};
    this.#text.value = before.text ?? "";
    this.choose(before);
    this.go(rest);
  }

  get keys() {
    const [one] = this.#page.noun;
    return {
      "/": { does: "Search", run: () => this.#text.focus() },
      j: { does: `Next ${one}`, run: () => this.#move(1) },
      k: { does: `${one.charAt(0).toUpperCase()}${one.slice(1)} before`, run: () => this.#move(-1) },
      Escape: { does: `Close the ${one}, leave the search`, run: () => this.#escape() },
    };
  }

  go(rest) {
    const { detail } = this.#page;
    const before = detail.name;
    if (rest !== before) {
      detail.open(rest);
    }
    setAttribute(this.#split, "data-open", String(rest !== ""));
    this.#unseen = rest !== "" && rest !== before;
    this.update();
    if (rest === "" && before) {
      (this.#rows.get(before)?.link ?? document.getElementById("main")).focus();
    } else if (rest && rest !== before) {
      detail.element.focus({ preventScroll: true });
    }
  }

  close() {
    left[this.#page.name] = { text: this.#text.value, ...this.#chosen() };
    NARROW.removeEventListener("change", this.#turned);
    this.#feed.close();
    this.#page.closed?.();
  }

  // The order of the document is that of the eye: the open one stands above the list where there is one column.
  #arrange() {
    const parts = [this.#list, this.#page.detail.element];
    reconcile(this.#split, NARROW.matches ? parts.reverse() : parts);
  }

  update() {
    const { list, isWanted } = this.#feed;
    const page = this.#page;
    const time = this.#time();
    const items = list?.items ?? [];
    const shown = items.filter(this.#filter());
    this.#showLive();
    page.told(list, time);
    this.#filters.hidden = items.length === 0;
    for (const node of page.below) {
      node.hidden = items.length === 0;
    }
    this.#showRows(shown, time);
    const open = items.find(({ name }) => name === page.detail.name);
    page.detail.update(open ?? null, isWanted || !state.status ? list : NOTHING, time);
    const all = count(items.length, ...page.noun);
    setText(this.#summary, shown.length < items.length ? `${number(shown.length)} of ${all} match` : all);
    this.#summary.hidden = items.length === 0;
    this.#empty.hidden = shown.length > 0;
    setText(this.#empty, page.empty(this.#feed, items.length));
    this.#bringIntoSight();
  }

  // Where there is one column the open one stands above the list, and who chose a row is far below. It waits for the
  // list: before that the page is too short to be scrolled.
  #bringIntoSight() {
    if (this.#unseen && this.#feed.list) {
      this.#unseen = false;
      if (NARROW.matches) {
        this.#page.detail.element.scrollIntoView({ block: "start" });
      }
    }
  }

  // When it is for the reader: {passed, now, at}, the seconds since the answer, the wall clock of the service in ms, by
  // which it is counted since when something is so, and the `instant` of the same moment. What is old stands still:
  // nobody knows whether it went on.
  #time() {
    const age = this.#feed.isOld() ? 0 : (this.#feed.age() ?? 0);
    const told = new Date(state.status?.generated_at).getTime();
    const answered = Number.isNaN(told) ? Date.now() - (instant() - this.#feed.at) : told + this.#feed.at - state.statusAt;
    return { passed: age / 1000, now: answered + age, at: this.#feed.at + age };
  }

  #showRows(shown, time) {
    const { list } = this.#feed;
    const { most = Infinity } = this.#page;
    const drawn = shown.slice(0, Math.min(this.#limit, most));
    const names = new Set(list?.items.map(({ name }) => name));
    for (const name of this.#rows.keys()) {
      if (!names.has(name)) {
        this.#rows.delete(name);
      }
    }
    const nodes = drawn.map((item) => {
      const row = this.#rows.get(item.name) ?? this.#page.row(item.name);
      this.#rows.set(item.name, row);
      row.show(item, list, item.name === this.#page.detail.name, time);
      return row.element;
    });
    reconcile(this.#page.list, nodes);
    this.#page.list.hidden = nodes.length === 0;
    const rest = number(shown.length - drawn.length);
    const full = drawn.length >= most;
    this.#more.hidden = drawn.length === shown.length || full;
    setText(this.#more, `Show more, ${rest} are left`);
    this.#beyond.hidden = drawn.length === shown.length || !full;
    setText(this.#beyond, `${rest} more match and are not drawn. Search for them, or choose among them.`);
  }

  #chosen() {
    return Object.fromEntries(Object.entries(this.#choices).map(([key, select]) => [key, select.value]));
  }

  #filter() {
    const text = this.#text.value.trim().toLowerCase();
    const chosen = this.#chosen();
    const held = document.activeElement?.closest(`.${this.#page.rowClass}`);
    return (item) =>
      (held && this.#rows.get(item.name)?.element === held) ||
      (this.#page.matches(item, chosen) && (text === "" || this.#page.text(item).toLowerCase().includes(text)));
  }

  // What the page chooses by has changed: says what that comes to.
  filtered() {
    this.update();
    announceLater(this.#summary.textContent);
  }

  #showLive() {
    const feed = this.#feed;
    const now = instant();
    const old = feed.isOld(now);
    const absent = feed.isAbsent; // the card says so
    const trouble = absent ? "" : feed.words(now);
    const kind = trouble || old ? "warn" : feed.list ? "good" : "idle";
    if (this.#live.dataset.kind !== kind) {
      this.#live.dataset.kind = kind;
      this.#live.replaceChildren(sign(kind), el("span"));
    }
    this.#told.toggleAttribute("data-stale", old);
    const asOf = feed.list && (old || trouble) ? `Shown as of ${duration(feed.age(now) / 1000)} ago.` : "";
    const pace = feed.pace < 1500 ? "Live" : `Live, asked each ${duration(Math.round(feed.pace / 1000))}`;
    const idle = state.status && !feed.isWanted ? "There is nothing to ask for." : "Asking the service.";
    const calm = feed.list ? (old ? "" : pace) : (absent && feed.again(now)) || idle;
    setText(this.#live.lastElementChild, [trouble || calm, asOf].filter(Boolean).join(" "));
  }

  choose(values) {
    for (const [key, select] of Object.entries(this.#choices)) {
      select.value = values[key] ?? "";
    }
  }

  // Chooses these alone, and says what that comes to.
  only(values) {
    this.#text.value = "";
    this.choose(values);
    this.filtered();
  }

  #showMore() {
    const first = this.#limit;
    this.#limit += ROWS;
    this.update();
    this.#page.list.children[first]?.querySelector("a")?.focus(); // the button may be gone, and the focus with it
  }

  #move(step) {
    const links = [...this.#page.list.querySelectorAll(".name a")];
    const { rowClass } = this.#page;
    const row = document.activeElement?.closest(`.${rowClass}`);
    const at = links.findIndex((link) => (row ? row.contains(link) : link.hasAttribute("aria-current")));
    const link = links[Math.min(Math.max(at < 0 ? 0 : at + step, 0), links.length - 1)];
    link?.focus();
    link?.closest(`.${rowClass}`).scrollIntoView({ block: "nearest" });
  }

  #escape() {
    if (document.activeElement === this.#text) {
      this.#text.value = "";
      this.#text.blur();
      this.update();
    } else if (this.#page.detail.name) {
      location.hash = `#/${this.#page.name}`;
    }
  }
}

function selects(choices, changed) {
  const made = Object.entries(choices).map(([key, [, values]]) => {
    const options = Object.entries(values).map(([value, name]) => new Option(name, value));
    return [key, el("select", { id: `filter-${key}`, onchange: changed }, ...options)];
  });
  return Object.fromEntries(made);
}
