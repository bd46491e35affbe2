// Begins the page: token, navigation, keys, and the clock by which ages are shown.

import { el, setText } from "./dom.js";
import { onFeed } from "./feed.js";
import { listen } from "./keys.js";
import { askNow, askTabsForToken, connect, unlocked } from "./link.js";
import { lockedView } from "./pages/locked.js";
import { PAGES } from "./registry.js";
import { Router } from "./router.js";
import { takeFromAddress, token } from "./session.js";
import { showKeys, showShell } from "./shell.js";
import { change, onChange, state } from "./state.js";

const TICK = 500; // ms: ages are shown in seconds
const main = document.getElementById("main");

const given = takeFromAddress(); // first of all: nothing else may see the address with it
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
  main.focus({ preventScroll: true });
}

function keys() {
  const pages = PAGES.map(({ name, title, key }) => [`g ${key}`, { does: title, run: () => goTo(name) }]);
  const digits = PAGES.map(({ name }, index) => [String(index + 1), { run: () => goTo(name) }]);
  return {
    "?": { does: "Show the keys", run: showKeys },
    ...Object.fromEntries([...pages, ...digits]),
    ...router.view.keys,
  };
}

if (!token()) {
  change({ service: "locked" });
  askTabsForToken();
}
document.getElementById("brand").prepend(el("img", { src: "/static/icon.svg", alt: "", width: 28, height: 28 }));
setText(document.getElementById("address"), location.host);
for (const part of document.querySelectorAll("#skip, .bar, .foot")) {
  part.hidden = false;
}
document.getElementById("help").addEventListener("click", showKeys);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment names a page here
  main.focus();
});
// A new link that is opened in this tab changes nothing but the fragment.
addEventListener("hashchange", () => {
  if (takeFromAddress()) {
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
