// Loads the page's modules one after the other, so that they never take more than one place of a busy service, and says
// so if one does not come. The order is that of their imports: each finds those that it needs already there.

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

async function styled() {
  for (const link of document.querySelectorAll("link[rel=stylesheet]")) {
    while (!link.sheet) {
      await wait(1000);
      link.href += "?"; // the same file, asked for again
      await new Promise((resolve) => {
        link.addEventListener("load", resolve, { once: true });
        link.addEventListener("error", resolve, { once: true });
      });
    }
  }
}

// A module that failed stays failed in this document, so a new document is needed; first the service must answer.
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
  for (const name of MODULES) {
    await import(`/static/${name}.js`);
  }
} catch {
  document.getElementById("loading").textContent =
    "The service did not give all of this page: it is busy or has ended. The page is loaded again by itself.";
  await reload();
}
await styled();
