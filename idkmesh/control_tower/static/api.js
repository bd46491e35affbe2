// One question to the service, and what came back as plain data.
//
// Laws: a question has an end (PATIENCE); a tab asks one question at a time, so that it never overloads a small service
// by itself, and only the status does not wait long for another; an answer of any status is a value, only no answer is
// an exception; a refusal keeps its words; whoever keeps the token hears of each that was refused.

import { retryAfter } from "./backoff.js";
import { token } from "./session.js";

const PATIENCE = 4000; // ms

let last = Promise.resolve();
let refused = () => {};

export function onRefused(listener) {
  refused = listener;
}

// Returns {ok, status, body, code, message, retryAfter, sent, took}. `sent` is the token that was used, `took` the ms from
// its sending to its end. `most` is how long it waits for the questions before, in ms.
export function ask(path, { most = Infinity, ...options } = {}) {
  const before = most < Infinity ? Promise.race([last, new Promise((resolve) => setTimeout(resolve, most))]) : last;
  const answer = before.then(() => question(path, options));
  const ended = answer.catch(() => {});
  last = Promise.all([last, ended]);
  return answer;
}

// The same at once: probes take no place of the service.
export async function question(path, { method = "GET", headers = {}, body, patience = PATIENCE } = {}) {
  const sent = token();
  const began = performance.now();
  const response = await fetch(path, {
    method,
    headers: sent ? { ...headers, "X-IDKMesh-UI-Token": sent } : headers,
    body,
    cache: "no-store",
    redirect: "error",
    signal: AbortSignal.timeout(patience),
  });
  const answer = await answered(response);
  if (answer.status === 401 && sent) {
    refused(sent);
  }
  return { ...answer, sent, took: performance.now() - began };
}

// The same for a response that has been opened elsewhere: reads its body to the end.
export async function answered(response) {
  const text = await response.text();
  const body = parsed(text);
  const { code = "", message = "" } = body?.error ?? {};
  return { ok: response.ok, status: response.status, body, text, code, message, retryAfter: retryAfter(response) };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// A command that does the same. The variable stands where the token would: no copied line carries a secret.
export function curl(path, { method = "GET", open = false, type = "", data = "", endless = false } = {}) {
  const parts = ["curl"];
  if (endless) {
    parts.push("-N");
  }
  if (method === "HEAD") {
    parts.push("-I");
  } else if (method !== "GET") {
    parts.push("-X", method);
  }
  if (!open) {
    parts.push("-H", '"Authorization: Bearer $IDKMESH_CONTROL_TOWER_TOKEN"');
  }
  if (type) {
    parts.push("-H", quoted(`Content-Type: ${type}`));
  }
  if (data) {
    parts.push("--data-binary", "@-");
  }
  const command = [...parts, quoted(location.origin + path)].join(" ");
  return data ? `${printf(data)} | ${command}` : command;
}

// Makes the same bytes in every POSIX shell: octal escapes are those that all of them know, and a "-" that came first
// would be read as an option.
function printf(data) {
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  const text = [...bytes].map((byte, index) => {
    const plain = byte >= 32 && byte < 127 && !"\\%'".includes(String.fromCharCode(byte));
    return plain && !(index === 0 && byte === 45)
      ? String.fromCharCode(byte)
      : `\\${byte.toString(8).padStart(3, "0")}`;
  });
  return `printf '${text.join("")}'`;
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
