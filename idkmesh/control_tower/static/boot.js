// Loads the page's files one after the other, so that they never take more than one place of a busy service, and says
// so if one does not come. The order of modules is that of their imports: each finds those that it needs there.

// First of all, and before any other file is asked for: nothing may see the address with the token in it, however long
// the rest takes or if it never comes. session.js judges what was left in sessionStorage.
const GIVEN = "idkmesh-link";
const RELOADS = "idkmesh-reloads"; // how often in a row this page was loaded again: the waits grow from one to the next

function takeFromAddress() {
  if (location.hash.startsWith("#token=")) {
    const link = location.hash;
    history.replaceState(null, "", location.pathname);
    sessionStorage.setItem(GIVEN, link.slice(0, 5000));
  }
}

const STYLES = "base frame parts controls overview events dependencies workloads topology inspect api locked forced".split(" ");

const MODULES = [
  "format",
  "dom",
  "backoff",
  "session",
  "sse",
  "state",
  "api",
  "announce",
  "topology_events",
  "workload_events",
  "words",
  "keys",
  "feed",
  "stream",
  "poll",
  "tabs",
  "link",
  "copy",
  "pages/beats",
  "pages/dependency_words",
  "pages/list_parts",
  "pages/dependency_row",
  "pages/module_words",
  "pages/module_row",
  "pages/router_words",
  "pages/overview_parts",
  "pages/history",
  "pages/overview",
  "pages/timeline",
  "pages/event_detail",
  "pages/events",
  "pages/live_feed",
  "pages/list_page",
  "pages/list_detail",
  "pages/dependency_detail",
  "pages/dependency_verdict",
  "pages/dependency_parts",
  "pages/dependencies",
  "pages/module_detail",
  "pages/module_verdict",
  "pages/readiness_schema",
  "pages/check_words",
  "pages/check_yaml",
  "pages/check_judge",
  "pages/check_fields",
  "pages/declared_modules",
  "pages/check_form",
  "pages/workloads",
  "pages/topology_spans",
  "pages/topology_history",
  "pages/topology_words",
  "pages/topology_strip",
  "pages/topology_row",
  "pages/topology_detail",
  "pages/topology_verdict",
  "pages/topology",
  "pages/request_bytes",
  "pages/examples",
  "pages/inspect",
  "pages/answer",
  "pages/api",
  "pages/locked",
  "registry",
  "router",
  "shell",
  "app",
];

const wait = (most) => new Promise((resolve) => setTimeout(resolve, most * (0.5 + Math.random() / 2)));

const TRIES = 6;
const LONGEST = 30_000; // ms

// A file that did not come. All else that is thrown here is an error of the code, which no new try mends.
class Missing extends Error {}

// A place may be taken for a moment, if only by the answer before.
async function patiently(path, load) {
  let before = null;
  for (let tries = 1; ; tries += 1) {
    try {
      return await load(path);
    } catch (error) {
      // A module that does not come is a TypeError of its own each time; what a module threw stays the same object.
      if (!(error instanceof Missing) && (!(error instanceof TypeError) || error === before)) {
        throw error;
      }
      if (tries === TRIES) {
        throw new Missing(path);
      }
      before = error;
      await wait(100 * 2 ** tries);
      await asked(path);
    }
  }
}

// Neither `import` nor a style sheet says why it failed: a question does, and a refusal's Retry-After is waited for.
async function asked(path) {
  const answer = await fetch(path, { cache: "no-store", redirect: "error" }).catch(() => null);
  const field = answer?.headers.get("Retry-After") ?? "";
  if (answer && !answer.ok && /^\d{1,6}$/.test(field)) {
    const least = Number(field) * 1000;
    await new Promise((resolve) => setTimeout(resolve, Math.min(least + Math.random() * 1000, LONGEST)));
  }
  return answer?.ok === true;
}

function style(path) {
  return new Promise((resolve, reject) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = path;
    link.addEventListener("load", resolve);
    link.addEventListener("error", () => {
      link.remove();
      reject(new Missing(path));
    });
    document.head.append(link);
  });
}

// In some browsers a module that failed stays failed: then a new document is needed, once there is an answer.
async function reload() {
  const before = Number(sessionStorage.getItem(RELOADS));
  for (let tries = before; ; tries += 1) {
    await wait(Math.min(1000 * 2 ** tries, LONGEST));
    if (await asked("/")) {
      sessionStorage.setItem(RELOADS, String(Math.min(tries + 1, 5)));
      location.reload();
      return;
    }
  }
}

const say = (text) => {
  document.getElementById("loading").textContent = text;
};

try {
  takeFromAddress();
  // A new link that is opened in this tab changes nothing but the fragment. No other listener is before this one.
  addEventListener("hashchange", takeFromAddress);
  for (const name of STYLES) {
    await patiently(`/static/css/${name}.css`, style);
  }
  for (const name of MODULES) {
    await patiently(`/static/${name}.js`, (path) => import(path));
  }
  sessionStorage.removeItem(RELOADS);
} catch (error) {
  if (error instanceof Missing) {
    say("The service did not give all of this page: it is busy or has ended. The page is loaded again by itself.");
    await reload();
  } else {
    say(
      "This page does not work in this browser as it is set up. It needs a current browser that lets it keep data " +
        "while the tab is open. The console says more.",
    );
    throw error;
  }
}
