// One release, whole: what its state means, what to do, its figures, its transitions in words, its last invocations.

import { fetchAgain } from "../copy.js";
import { el, setText, showRows, sign } from "../dom.js";
import { clock, count, duration, number, visible } from "../format.js";
import { isTarget, stateSign } from "../topology_events.js";
import { ListDetail } from "./list_detail.js";
import { Changes, Sign } from "./list_parts.js";
import { causeWords } from "./router_words.js";
import { releaseName } from "./topology_row.js";
import { isTransition } from "./topology_spans.js";
import { axis, StateStrip } from "./topology_strip.js";
import { detailRows, stateOf, whyWords } from "./topology_words.js";

const SHOWN = 20; // transitions

export const releaseDetail = (history) =>
  new ListDetail({
    page: "topology",
    one: "release",
    isName: isTarget,
    gone: "No release of this name is observed. It has not been used since the tower was started, or not for an hour.",
    noName: "This is no name of a release: those are AGENT/VERSION/RELEASE, as the router is asked for them.",
    parts: (name) => new Parts(name, history),
  });

class Parts {
  nodes;
  #history;
  #sign = new Sign();
  #meaning = el("p");
  #cause = el("p");
  #advice = el("p.advice");
  #strip = new StateStrip();
  #axis = el("p.axis", { "aria-hidden": "true" }, el("span"), el("span"));
  #rows = el("dl.rows");
  #title = el("h3");
  #list = el("ol.changes");
  #rest = el("p.note");
  #changes = new Changes("Last invocations");
  #key = "";

  constructor(name, history) {
    this.#history = history;
    this.nodes = [
      el("h2", {}, this.#sign.element, releaseName(name)),
      this.#meaning,
      this.#cause,
      this.#advice,
      el("div.over", {}, this.#strip.element, this.#axis, this.#strip.words),
      this.#title,
      this.#list,
      this.#rest,
      this.#rows,
      this.#changes.title,
      this.#changes.list,
      ...fetchAgain("/api/v1/topology", `topology/${name}`, filterOf(name)),
    ];
  }

  tick(item, _list, time) {
    const { now } = time;
    const evidence = this.#history.of(item.name);
    this.#sign.show(stateSign(item.state));
    const [, meaning, advice] = stateOf(item.state);
    setText(this.#meaning, meaning);
    setText(this.#advice, advice);
    this.#advice.toggleAttribute("data-calm", item.state === "populated"); // nothing is to be done
    const cause = whyWords(item, evidence);
    setText(this.#cause, `Why: ${cause}.`);
    this.#cause.hidden = cause === "";
    this.#strip.show(item, this.#history, time);
    this.#axis.hidden = !this.#history.read;
    axis(now).forEach((text, index) => setText(this.#axis.children[index], text));
    showRows(this.#rows, detailRows(item, now));
    this.#showTransitions(evidence);
    this.#changes.show(({ type, subject }) => type === "idkmesh.agent.invoked" && subject === item.name, item.name);
  }

  show() {
    // All that is shown grows older.
  }

  // The newest first, each with how long it lasted.
  #showTransitions(evidence) {
    const key = `${this.#history.version} ${evidence.length}`;
    if (this.#key === key) {
      return;
    }
    this.#key = key;
    const moves = evidence.filter(isTransition);
    setText(this.#title, this.#history.read ? count(moves.length, "transition") : "Transitions");
    this.#list.replaceChildren(...moves.map((move, index) => line(move, moves[index + 1])).reverse().slice(0, SHOWN));
    this.#list.hidden = moves.length === 0;
    const more = moves.length - SHOWN;
    setText(this.#rest, `and ${number(Math.max(more, 0))} earlier ones: the page of events has them`);
    this.#rest.hidden = more <= 0;
  }
}

// What leaves this release alone of the whole document. The letters of a name need no quoting; what is none has no row
// of its own to be fetched.
function filterOf(name) {
  if (!isTarget(name)) {
    return "";
  }
  const parts = name.split("/");
  const wanted = ["agentId", "agentCardVersion", "releaseId"].map((key, index) => `.${key} == "${parts[index]}"`);
  return ` | jq '.observations[] | select(${wanted.join(" and ")})'`;
}

function line({ at, before, after, event }, next) {
  const { localRevision: revision, cause } = event.data;
  const lasted = next ? `; for ${duration((next.at - at) / 1000)}` : "";
  const why = cause ? `; ${causeWords(cause)}` : "";
  const renewed = event.type === "idkmesh.topology.renewed" ? "; a new session" : "";
  return el(
    "li",
    {},
    sign(stateSign(after)),
    el("time", { dateTime: String(event.time) }, clock(event.time)),
    el("a", { href: `#/events/${event.id}` }, stateOf(after)[0]),
    el("bdi.text", {}, visible(`was ${before}; revision ${revision}${renewed}${lasted}${why}`)),
  );
}
