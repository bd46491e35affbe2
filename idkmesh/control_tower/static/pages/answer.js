// A live answer: asked for now, shown with its status, fields, body and the time it took.
//
// Laws: a stream is shown by its first bytes and then ended; the token is sent and never shown.

import { block } from "../copy.js";
import { el, sign } from "../dom.js";
import { bytes, number, pretty, visible } from "../format.js";
import { token } from "../session.js";

const MOST = 200_000; // characters of a body that are drawn
const LISTEN = 2500; // ms that a stream is listened to
const PATIENCE = 10_000;

export async function liveAnswer({ path, method, open, type, data, endless }) {
  const headers = {
    ...(open ? {} : { "X-IDKMesh-UI-Token": token() ?? "" }),
    ...(type ? { "Content-Type": type } : {}),
  };
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), PATIENCE);
  const began = performance.now();
  try {
    const response = await fetch(path, {
      method,
      headers,
      body: data || undefined,
      cache: "no-store",
      redirect: "error",
      signal: abort.signal,
    });
    const first = performance.now() - began;
    const text = endless && response.ok ? await beginning(response, abort) : await response.text();
    return shown(response, text, first, performance.now() - began, endless && response.ok);
  } catch {
    return [el("p.trouble", {}, "No answer came. The service may have ended, or be too busy.")];
  } finally {
    clearTimeout(timer);
    abort.abort();
  }
}

async function beginning(response, abort) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const timer = setTimeout(() => reader.cancel().catch(() => {}), LISTEN);
  let text = "";
  for (let size = 0; size < 4096;) {
    const { done, value } = await reader.read();
    if (done) {
      break;
    }
    size += value.length;
    text += decoder.decode(value, { stream: true });
  }
  clearTimeout(timer);
  abort.abort();
  return text;
}

function shown(response, text, first, whole, endless) {
  const kind = response.ok ? "good" : "warn";
  const took = endless
    ? `first byte after ${number(Math.round(first))} ms, ended by this page`
    : `${number(Math.round(whole))} ms`;
  const fields = [...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
  const size = new TextEncoder().encode(text).length;
  return [
    el(
      "p.outcome",
      {},
      sign(kind),
      el("strong", {}, `${response.status} ${response.statusText}`),
      el("span.note", {}, `${took}, ${bytes(size)}`),
    ),
    el("h3", {}, endless ? "First bytes" : "Body"),
    text ? block(body(text), "Body of the answer") : el("p.note", {}, "Empty."),
    el("h3", {}, "Fields"),
    block(visible(fields), "Fields of the answer"),
  ];
}

function body(text) {
  let whole = text;
  try {
    whole = pretty(JSON.parse(text));
  } catch {
    whole = visible(text);
  }
  return whole.length > MOST ? `${whole.slice(0, MOST)}\n\u2026 ${number(whole.length - MOST)} characters more` : whole;
}
