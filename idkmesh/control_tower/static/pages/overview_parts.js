// The rows of the overview, made from the documents of the service. Pure, but for the table of refusals.

import { el, setText } from "../dom.js";
import { amount, count, dateTime, duration, limitName, number, visible, zone } from "../format.js";

// [usage, limit, name, what it counts, flag]
export const GAUGES = [
  [
    "in_flight",
    "max_concurrent_requests",
    "Requests in flight",
    "This page's own question is one of them.",
    "--max-concurrent-requests",
  ],
  ["connections", "max_connections", "Connections", "Open ones, whatever they do.", "--max-connections"],
  ["sse_clients", "max_sse_clients", "Event streams", "All tabs of this browser share one.", "--max-sse-clients"],
];

export const MINUTE = 60_000; // ms of history
export const HIGH = 0.8; // the share of a limit from which there is little room

// Where there is little room, and what to do; empty where there is room everywhere. The request that asks for the
// figures is no sign of it.
export function pressure({ usage = {}, limits = {}, peaks = {} } = {}) {
  const most = (used) => Math.max(usage[used], peaks.last_second?.[used] ?? 0); // what lasts for less than a look counts
  return GAUGES.filter(([used, limit]) => used in usage && limits[limit] > 0)
    .map(([used, limit, name, , flag]) => ({
      name,
      flag,
      used: most(used),
      over: most(used) > usage[used],
      bound: limits[limit],
      others: most(used) - (used === "in_flight" ? 1 : 0),
    }))
    .filter(({ bound, others }) => others > 0 && others / bound >= HIGH)
    .map(({ name, flag, used, bound, over }) => {
      const share = `${number(used)} of ${number(bound)}`;
      const words = over ? `at most ${share} in the last second` : share;
      return `${name}: ${words}; raise ${flag}, or send less.`;
    })
    .join(" ");
}

// How many requests found no room in the last minute at `now`, as far as the samples go back.
export function refusedLately(samples, now) {
  const totals = samples.filter(({ at }) => now - at <= MINUTE).map(({ usage }) => usage.overloaded_total ?? 0);
  return totals.length > 0 ? Math.max(0, totals.at(-1) - totals[0]) : 0;
}

export const refusedWords = (refused) =>
  refused > 0 ? `${count(refused, "request was", "requests were")} refused for want of room in the last minute.` : "";

const TOTALS = [
  [
    "overloaded_total",
    "overloaded",
    "All places were taken.",
    "Raise --max-concurrent-requests, or send less at once.",
  ],
  ["draining_total", "shutting_down", "A drain had begun.", "Ask again after the next start."],
  ["refused_total", "refused", "A rule was broken, or a right was missing.", "Look at the code in each answer."],
];

const CLOSED = [
  ["timed_out_total", "Timed out", "Connections that missed a deadline."],
  ["evicted_total", "Gave way", "Connections closed to make room for a newcomer."],
];

// [code, status, total, meaning, remedy]: by code where the service counts so, else by kind.
export function refusalRows({ refusals, usage = {} }) {
  if (Array.isArray(refusals)) {
    return refusals.map(({ code, status, total, meaning, remedy }) => [code, status, total, meaning, remedy]);
  }
  return TOTALS.filter(([key]) => usage[key] > 0).map(([key, code, meaning, remedy]) => [
    code,
    "",
    usage[key],
    meaning,
    remedy,
  ]);
}

export function totalRows({ usage = {}, streams }) {
  const rows = [];
  if ("admitted_total" in usage) {
    rows.push(["Admitted", number(usage.admitted_total), "Requests given to a handler."]);
  }
  for (const [key, name, note] of CLOSED) {
    if (key in usage) {
      rows.push([name, number(usage[key]), note]);
    }
  }
  if (streams) {
    rows.push(["Streams opened", number(streams.opened_total)]);
    rows.push(["Streams refused", number(streams.refused_total), "Every stream was taken."]);
    rows.push([
      "Streams dropped",
      number(streams.dropped_total),
      "The client took no byte in time, or fell too far behind.",
    ]);
  }
  return rows;
}

export function storeRows({ events }) {
  if (!events) {
    return [];
  }
  const { epoch, floor, newest, refused_total: refused, dropped_total: dropped, failing, warning } = events;
  const rows = [["Takes events", failing ? `no: ${visible(failing)}` : "yes"]];
  if (warning) {
    rows.push(["Warning", visible(warning)]);
  }
  if (Number.isInteger(newest) && Number.isInteger(floor)) {
    rows.push([
      "Kept",
      newest > floor ? `${count(newest - floor, "event")}, ${number(floor + 1)} to ${number(newest)}` : "no events",
    ]);
  }
  rows.push(
    ["Lost", refused || dropped ? `${number(refused)} refused, ${number(dropped)} dropped` : "none"],
    ["Store", visible(String(epoch))],
  );
  return rows;
}

export function serviceRows({ service, started_at: startedAt, uptime_seconds: uptime }) {
  return [
    ["Name", visible(service.name)],
    ["Version", visible(service.version)],
    ["Mode", service.read_only ? `${visible(service.mode)}, read-only` : visible(service.mode)],
    ["Started", `${dateTime(startedAt)} ${zone(startedAt)}`],
    ["Up for", duration(uptime)],
  ];
}

export function limitRows({ limits = {} }) {
  return Object.entries(limits).map(([key, value]) => [limitName(key), amount(key, value), key]);
}

// Shows the rows in a table body, keeping those that are there.
export function showRefusals(body, rows) {
  while (body.rows.length > rows.length) {
    body.rows[body.rows.length - 1].remove();
  }
  rows.forEach(([code, status, total, meaning, remedy], index) => {
    let row = body.rows[index];
    if (!row) {
      row = el(
        "tr",
        { role: "row" },
        el("th", { scope: "row", role: "rowheader" }, el("code"), el("span.status")),
        el("td.number", { role: "cell" }),
        el("td", { role: "cell" }, el("p"), el("p.remedy")),
      );
      body.append(row);
    }
    setText(row.cells[0].firstElementChild, code);
    setText(row.cells[0].lastElementChild, String(status));
    setText(row.cells[1], number(total));
    setText(row.cells[2].firstElementChild, meaning);
    showWords(row.cells[2].lastElementChild, remedy);
  });
}

// A sentence whose `code` stands between backticks.
function showWords(target, text) {
  if (target.dataset.text !== text) {
    target.dataset.text = text;
    target.replaceChildren(...text.split("`").map((part, index) => (index % 2 ? el("code", {}, part) : part)));
  }
}
