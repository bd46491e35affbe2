// One question to the service, and what came back as plain data.
//
// Laws: a question has an end (PATIENCE); a tab asks one question at a time, so that it never overloads a small service
// by itself; an answer of any status is a value, only no answer is an exception; a refusal keeps its words.

import { retryAfter } from "./backoff.js";
import { token } from "./session.js";

const PATIENCE = 4000; // ms

let last = Promise.resolve();

// Returns {ok, status, body, code, message, retryAfter, sent}. `sent` is the token that was used.
export function ask(path, options = {}) {
  const answer = last.then(() => question(path, options));
  last = answer.catch(() => {});
  return answer;
}

// The same at once: probes take no place of the service.
export async function question(path, { method = "GET", headers = {}, body, patience = PATIENCE } = {}) {
  const sent = token();
  const response = await fetch(path, {
    method,
    headers: sent ? { ...headers, "X-IDKMesh-UI-Token": sent } : headers,
    body,
    cache: "no-store",
    redirect: "error",
    signal: AbortSignal.timeout(patience),
  });
  return { ...(await answered(response)), sent };
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
    parts.push("--data-binary", `$'${escaped(data)}'`);
  }
  return [...parts, quoted(location.origin + path)].join(" ");
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

const escaped = (text) =>
  text.replaceAll("\\", "\\\\").replaceAll("'", "\\'").replaceAll("\r", "\\r").replaceAll("\n", "\\n");
