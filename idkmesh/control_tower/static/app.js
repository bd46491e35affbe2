// Begins the page: token, navigation, keys, and the clock by which ages are shown.

import { setText, svg } from "./dom.js";
import { onFeed } from "./feed.js";
import { listen } from "./keys.js";
import { askNow, askTabsForToken, connect, unlocked } from "./link.js";
import { lockedView } from "./pages/locked.js";
import { PAGES } from "./registry.js";
import { Router } from "./router.js";
import { takeGiven, token } from "./session.js";
import { showKeys, showShell } from "./shell.js";
import { change, onChange, state } from "./state.js";

const TICK = 500; // ms: ages are shown in seconds
const main = document.getElementById("main");

const given = takeGiven();
const router = new Router(PAGES, main, document.getElementById("nav"));

function show() {
  router.show(state.service === "locked" ? (root) => lockedView(root, unlocked) : null);
  showShell(router.title, main.dataset.page);
}

function update() {
  if ((state.service === "locked") !== (main.dataset.page === "locked")) {
    show();
    return;
  }
  router.view.update();
  showShell(router.title, main.dataset.page);
}

function goTo(name) {
  location.hash = `#/${name}`;
}

function keys() {
  if (state.service === "locked") {
    return { "?": { does: "Show the keys", run: showKeys } };
  }
  const pages = PAGES.map(({ name, title, key }, index) => [
    `g ${key}`,
    { does: title, also: String(index + 1), run: () => goTo(name) },
  ]);
  const digits = PAGES.map(({ name }, index) => [String(index + 1), { run: () => goTo(name) }]);
  return {
    "?": { does: "Show the keys", run: showKeys },
    ...Object.fromEntries([...pages, ...digits]),
    ...router.view.keys,
  };
}

// As icon.svg, without a further question to the service.
function icon() {
  const lines = svg("path", { d: "M16 9.5 9 22M16 9.5 23 22M9 22h14" });
  const points = [
    [16, 9],
    [9, 22],
    [23, 22],
  ].map(([cx, cy]) => svg("circle", { cx, cy, r: 3.4 }));
  const ground = svg("rect", { width: 32, height: 32, rx: 8 });
  return svg("svg", { viewBox: "0 0 32 32", class: "icon", "aria-hidden": "true" }, ground, lines, ...points);
}

if (!token()) {
  change({ service: "locked" });
  askTabsForToken();
}
document.getElementById("brand").prepend(icon());
setText(document.getElementById("address"), location.host);
for (const part of document.querySelectorAll("#skip, .bar, .foot")) {
  part.hidden = false;
}
document.getElementById("help").addEventListener("click", showKeys);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment names a page here
  main.focus();
});
// boot.js has taken a new link out of the address before this.
addEventListener("hashchange", () => {
  if (takeGiven()) {
    unlocked();
  }
  show();
});
// Browsers slow the timers of a hidden tab down.
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && askNow());

show();
onChange(update);
onFeed(() => change({})); // drawn with all else: a fault in a picture must not look like a broken stream
listen(keys);
setInterval(() => change({}), TICK);
update();
if (given) {
  unlocked();
} else if (token()) {
  connect();
}
