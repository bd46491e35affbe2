// The releases that the router observes: state, revision and age of each, and its transitions over time.
// See list_page.js for its laws.

import { el } from "../dom.js";
import { state as tower } from "../state.js";
import { ListPage } from "./list_page.js";
import { LiveFeed } from "./live_feed.js";
import { absentWords, noneWords } from "./router_words.js";
import { releaseDetail } from "./topology_detail.js";
import { History } from "./topology_history.js";
import { ReleaseRow } from "./topology_row.js";
import { legend, TopologyVerdict } from "./topology_verdict.js";

export const topology = { name: "topology", title: "Topology", key: "t", open };

const MOST = 1000; // rows: each has a picture

let left = ""; // the state that was chosen when the page was left

function open(root, rest) {
  const history = new History();
  const verdict = new TopologyVerdict(left, () => {
    left = verdict.chosen;
    view.filtered();
  });
  const view = new ListPage(root, rest, {
    name: topology.name,
    title: topology.title,
    noun: ["release", "releases"],
    feed: (onAnswer) => new LiveFeed("/api/v1/topology", {}, onAnswer, read, isObserved),
    detail: releaseDetail(history),
    choices: {},
    list: el("ol.releases.card"),
    above: [verdict.element],
    below: [legend()],
    rowClass: "release",
    row: (name) => new ReleaseRow(name, history),
    most: MOST,
    matches: ({ state }) => verdict.chosen === "" || verdict.chosen === state,
    text: ({ name, state }) => `${name}\n${state}`,
    told: (list, time) => {
      history.look();
      verdict.update(list, history, time);
    },
    empty,
    closed: () => history.close(),
  });
  return view;
}

// Whether there is a projection: the status says so (CT-5.9).
const isObserved = () => tower.status !== null && tower.status.router !== null && tower.status.router?.observes !== false;

// The projection as a list: a release has the name that its events and the commands have (RT-1.1).
function read(body) {
  if (!Array.isArray(body?.observations)) {
    return null;
  }
  const named = (row) => ({ ...row, name: `${row.agentId}/${row.agentCardVersion}/${row.releaseId}` });
  return { provider: String(body.provider), items: body.observations.map(named) };
}

function empty(feed, all) {
  const { router } = tower.status ?? {};
  if (tower.status && !feed.isWanted) {
    return absentWords(router);
  }
  if (!feed.list) {
    return feed.trouble || "Asking the service what its router observes.";
  }
  return all > 0 ? "No release matches. Change the search, or choose another state." : noneWords(router);
}
