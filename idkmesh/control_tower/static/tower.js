// The first page of the control tower: asks for the status each second and shows it.
//
// Laws: whatever comes from the service is set as text, never as markup; whatever is shown has an age, and is grey
// once two answers are missing; the token lives in sessionStorage and in a request field, nowhere else.

const BEAT = 1000; // ms between two questions
const STALE = 2.5; // seconds without an answer: two beats were missed
const PATIENCE = 4000; // ms until an unanswered question counts as missed
const SLOWEST = 5000; // ms between two questions while none is answered
const TOKEN = "idkmesh-token";

const byId = (id) => document.getElementById(id);
const page = byId("page");

const GAUGES = [
  ["in_flight", "max_concurrent_requests", "Requests"],
  ["connections", "max_connections", "Connections"],
];

const COUNTERS = [
  ["admitted_total", "Admitted", "given to a handler"],
  ["overloaded_total", "Overloaded", "503: all places were taken"],
  ["draining_total", "Shutting down", "503: a drain had begun"],
  ["refused_total", "Refused", "broke a rule or had no right"],
  ["timed_out_total", "Timed out", "missed a deadline"],
  ["evicted_total", "Gave way", "closed for a newer connection"],
];

const STATES = {
  connecting: ["Connecting", "Asking the service for its status."],
  ready: ["Ready", "The service answers and has room."],
  overloaded: ["Overloaded", "Every place is taken. New requests are told to come back; those admitted are being answered."],
  draining: ["Draining", "The service is shutting down: it finishes what it has admitted and takes nothing new."],
  lost: ["No answer", "The service does not answer. It may have ended, or be too busy. This page keeps asking."],
  locked: [
    "Link needed",
    "This tab has no valid token: it was opened without one, or the service was started again. " +
      "Open the link that the command printed.",
  ],
  unexpected: ["Unexpected answer", "Something answers at this address, and not as this service does."],
};

// The refusals that are states of their own. Any other is shown in the service's words.
const REFUSALS = new Map([
  ["overloaded", "overloaded"],
  ["shutting_down", "draining"],
  ["unauthorized", "locked"],
]);

// Limits of the event stream, which this service does not serve yet.
const RESERVED = /sse/;

let answer = null; // the last status document
let answeredAt = 0; // its instant, on the monotonic clock of performance.now()
let misses = 0; // questions without any answer in a row
let timer = 0;

function takeToken() {
  const match = /^#token=([A-Za-z0-9\-._~]{32,4096})$/.exec(location.hash);
  if (match) {
    sessionStorage.setItem(TOKEN, match[1]);
  }
  if (location.hash) {
    history.replaceState(null, "", location.pathname);
  }
  return Boolean(match);
}

// Returns a state and, where STATES has none that fits, an explanation. Throws where nothing answers.
async function ask() {
  const token = sessionStorage.getItem(TOKEN);
  if (!token) {
    return ["locked"];
  }
  const response = await fetch("/api/v1/status", {
    headers: { "X-IDKMesh-UI-Token": token },
    cache: "no-store",
    signal: AbortSignal.timeout(PATIENCE),
  });
  const body = parsed(await response.text());
  if (response.ok && body?.operations) {
    answer = body;
    answeredAt = performance.now();
    return [answer.operations.usage?.draining ? "draining" : "ready"];
  }
  const { code, message } = body?.error ?? {};
  if (REFUSALS.has(code)) {
    return [REFUSALS.get(code)];
  }
  return message
    ? ["unexpected", `The service answered ${response.status} ${code}: ${message} This page keeps asking.`]
    : ["unexpected"];
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

async function beat() {
  let state = "lost";
  let words;
  try {
    [state, words] = await ask();
    misses = 0;
  } catch {
    misses += 1; // the connection failed, or nothing came in time
  }
  show(state, words);
  const slow = state === "locked" ? SLOWEST : Math.min(BEAT * 1.5 ** misses, SLOWEST);
  // Jitter while it is lost, so that many tabs do not return at once.
  clearTimeout(timer);
  timer = setTimeout(beat, misses ? slow * (0.75 + Math.random() / 2) : slow);
}

function show(state, words) {
  const [verdict, explanation] = STATES[state];
  setText(byId("verdict"), verdict);
  setText(byId("explanation"), words ?? explanation);
  page.dataset.state = state;
  document.title = `${verdict} · IDKMesh control tower`;
  if (answer) {
    byId("facts").hidden = false;
    showGauges(answer.operations);
    showCounters(answer.operations.usage ?? {});
    showRows(byId("limits"), Object.entries(answer.operations.limits ?? {}).map(limitRow));
    showRows(byId("service"), serviceRows(answer));
  }
  showAge();
}

function showAge() {
  if (!answer) {
    return;
  }
  const age = (performance.now() - answeredAt) / 1000;
  const stale = age > STALE;
  byId("facts").classList.toggle("stale", stale);
  setText(byId("age"), stale ? `Figures are ${duration(age)} old` : "Updated each second");
}

function showGauges({ usage = {}, limits = {} }) {
  for (const [used, limit, name] of GAUGES) {
    if (used in usage && limit in limits) {
      showGauge(gauge(used, name), name, usage[used], limits[limit]);
    }
  }
}

function gauge(id, name) {
  const existing = byId(`gauge-${id}`);
  if (existing) {
    return existing;
  }
  const card = element("div", "gauge");
  card.id = `gauge-${id}`;
  const title = element("p", "name");
  title.append(element("span", "", name), element("span", "level"));
  const figure = element("p", "figure");
  figure.append(element("b"), element("span"));
  const track = element("div", "track");
  track.setAttribute("role", "meter");
  track.setAttribute("aria-label", name);
  track.append(element("div", "fill"));
  card.append(title, figure, track);
  byId("gauges").append(card);
  return card;
}

function showGauge(card, name, used, limit) {
  const share = Math.min(used / limit, 1);
  const level = share >= 1 ? "full" : share >= 0.8 ? "high" : "";
  card.dataset.level = level;
  setText(card.querySelector(".level"), { full: "full", high: "nearly full" }[level] ?? "");
  setText(card.querySelector("b"), number(used));
  setText(card.querySelector(".figure span"), ` of ${number(limit)}`);
  const track = card.querySelector(".track");
  track.setAttribute("aria-valuemin", 0);
  track.setAttribute("aria-valuemax", limit);
  track.setAttribute("aria-valuenow", used);
  track.setAttribute("aria-valuetext", `${number(used)} of ${number(limit)}`);
  track.firstChild.style.transform = `translateX(${(share - 1) * 100}%)`;
}

function showCounters(usage) {
  const list = byId("counters");
  for (const [key, name, note] of COUNTERS) {
    if (!(key in usage)) {
      continue;
    }
    let row = byId(`count-${key}`);
    if (!row) {
      row = element("div");
      row.id = `count-${key}`;
      row.append(element("dt", "", name), element("dd", "count"), element("dd", "note", note));
      list.append(row);
    }
    setText(row.querySelector(".count"), number(usage[key]));
  }
}

function showRows(list, rows) {
  rows.forEach(([name, value], index) => {
    let row = list.children[index];
    if (!row) {
      row = element("div");
      row.append(element("dt"), element("dd"));
      list.append(row);
    }
    setText(row.firstChild, name);
    setText(row.lastChild, value);
  });
}

function limitRow([key, value]) {
  const words = key.replace(/_(seconds|bytes)$/, "").replaceAll("_", " ").replace("sse", "event stream");
  const name = words.replace(/^max (.*)$/, "$1, at most").replace("max stream", "age, at most");
  const label = name[0].toUpperCase() + name.slice(1);
  return [label, RESERVED.test(key) ? `${amount(key, value)}, reserved` : amount(key, value)];
}

function amount(key, value) {
  if (key.endsWith("_seconds")) {
    return `${number(value)} s`;
  }
  if (key.endsWith("_bytes")) {
    return bytes(value);
  }
  if (typeof value === "boolean") {
    return value ? "yes" : "no";
  }
  return typeof value === "number" ? number(value) : String(value).replaceAll("_", " ");
}

function serviceRows({ service, started_at: startedAt, uptime_seconds: uptime }) {
  return [
    ["Name", service.name],
    ["Version", service.version],
    ["Mode", service.read_only ? `${service.mode}, read-only` : service.mode],
    ["Started", new Date(startedAt).toLocaleString()],
    ["Up for", duration(uptime)],
  ];
}

function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

function setText(target, text) {
  if (target.textContent !== text) {
    target.textContent = text; // an unchanged live region is not read out again
  }
}

function number(value) {
  return value.toLocaleString("en", { maximumFractionDigits: 3 });
}

function bytes(value) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (value >= size) {
      return `${number(value / size)} ${unit}`;
    }
  }
  return `${number(value)} B`;
}

function duration(seconds) {
  const whole = Math.floor(seconds);
  const parts = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  return parts.slice(first, first < 0 ? undefined : first + 2).map((part) => part.join(" ")).join(" ");
}

takeToken();
setText(byId("address"), location.host);
// A new link that is opened in this tab changes nothing but the fragment.
addEventListener("hashchange", () => takeToken() && beat());
// Browsers slow the timers of a hidden tab down.
addEventListener("visibilitychange", () => document.visibilityState === "visible" && beat());
setInterval(showAge, BEAT);
beat();
