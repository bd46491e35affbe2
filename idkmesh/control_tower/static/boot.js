// Loads the page's files one after the other, so that they never take more than one place of a busy service, and says
// so if one does not come. The order of modules is that of their imports: each finds those that it needs there.

const STYLES = ["base", "frame", "parts", "controls", "overview", "events", "inspect", "api", "locked"];

const MODULES = [
  "format",
  "dom",
  "backoff",
  "session",
  "sse",
  "state",
  "api",
  "words",
  "keys",
  "feed",
  "stream",
  "poll",
  "tabs",
  "link",
  "copy",
  "pages/history",
  "pages/overview_parts",
  "pages/overview",
  "pages/timeline",
  "pages/event_detail",
  "pages/events",
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

// A place may be taken for a moment, if only by the answer before.
async function patiently(load) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await load();
    } catch (error) {
      if (tries === TRIES) {
        throw error;
      }
      await wait(100 * 2 ** tries);
    }
  }
}

function style(name) {
  return new Promise((resolve, reject) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = `/static/css/${name}.css`;
    link.addEventListener("load", resolve);
    link.addEventListener("error", () => {
      link.remove();
      reject(new Error(link.href));
    });
    document.head.append(link);
  });
}

// In some browsers a module that failed stays failed: then a new document is needed, once there is an answer.
async function reload() {
  for (let most = 1000; ; most = Math.min(most * 2, 15_000)) {
    await wait(most);
    const answer = await fetch("/", { cache: "no-store" }).catch(() => null);
    if (answer?.ok) {
      location.reload();
      return;
    }
  }
}

try {
  for (const name of STYLES) {
    await patiently(() => style(name));
  }
  for (const name of MODULES) {
    await patiently(() => import(`/static/${name}.js`));
  }
} catch {
  document.getElementById("loading").textContent =
    "The service did not give all of this page: it is busy or has ended. The page is loaded again by itself.";
  await reload();
}
