// The event stream, read with fetch so that it carries the token in a field.
//
// Laws: exactly one connection at a time; every end leads to a next try (a refusal waits with back-off and honours
// Retry-After, a stream that lived its time is opened again at once); it resumes after the last event that arrived, or
// where the service said that the stream began; silence beyond two heartbeats is an end.

import { answered } from "./api.js";
import { backoff, retryAfter } from "./backoff.js";
import { SseParser } from "./sse.js";

const PATH = "/api/v1/events/stream";
const OPENING = 8000; // ms until a stream that does not open counts as lost
const SLOW = 1000; // ms until a person is told that it is being opened
const QUIET = 1000; // ms that a stream lives before its end counts as a normal one
const PATIENT = 8000; // the longest back-off while the service answers, so a place that is free is taken soon

export class EventStream {
  #options;
  #abort = new AbortController();
  #stopped = false;
  #wake = () => {};
  #tries = 0;

  // `options`: token(), position(), silence() in ms, onEvents(events), onOpen({position, resumed}), onReset(code),
  // onPhase({phase, why, words, until, at}), onUnauthorized(token).
  constructor(options) {
    this.#options = options;
  }

  async run() {
    while (!this.#stopped) {
      const { why, words = "", asked = 0, longest, normal = false } = await this.#once();
      if (this.#stopped) {
        return;
      }
      if (normal) {
        this.#tries = 0;
        continue; // it lived its time: no fault, and nothing to tell
      }
      this.#tries += 1;
      const wait = backoff(this.#tries, asked, Math.random(), longest);
      this.#options.onPhase({ phase: "waiting", why, words, until: performance.now() + wait, at: 0 });
      await this.#pause(wait);
    }
  }

  stop() {
    this.#stopped = true;
    this.#abort.abort();
    this.#wake();
  }

  // Something else has seen the service answer: there is no reason to wait longer.
  nudge() {
    this.#wake();
  }

  #pause(wait) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, wait);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  // Opens the stream, reads it to its end, and says why it ended.
  async #once() {
    this.#abort = new AbortController();
    const sent = this.#options.token();
    const position = this.#options.position();
    const watch = new Watch(OPENING, () => this.#abort.abort());
    const slow = new Watch(SLOW, () => this.#options.onPhase({ phase: "connecting", why: "", until: 0, at: 0 }));
    try {
      const response = await fetch(PATH, {
        headers: { "X-IDKMesh-UI-Token": sent, ...(position ? { "Last-Event-ID": position } : {}) },
        cache: "no-store",
        redirect: "error",
        signal: this.#abort.signal,
      });
      slow.stop();
      return response.ok ? await this.#read(response, position, watch) : await this.#refused(response, sent);
    } catch {
      return { why: watch.rang && watch.live ? "silent" : "lost" };
    } finally {
      watch.stop();
      slow.stop();
    }
  }

  async #read(response, position, watch) {
    const opened = performance.now();
    let draining = false;
    let batch = [];
    const parser = new SseParser(({ type, data }) => {
      if (type === "shutting_down") {
        draining = true;
      } else {
        batch.push(JSON.parse(data));
      }
    });
    watch.live = true;
    this.#options.onOpen({
      position: response.headers.get("x-idkmesh-stream-position") ?? "",
      resumed: Boolean(position),
    });
    const reader = response.body.getReader();
    for (;;) {
      watch.restart(this.#options.silence());
      this.#options.onPhase({ phase: "live", why: "", until: 0, at: performance.now() });
      const { done, value } = await reader.read();
      if (done) {
        break;
      }
      parser.feed(value);
      if (batch.length > 0) {
        this.#options.onEvents(batch);
        batch = [];
        this.#tries = 0;
      }
    }
    if (draining) {
      return { why: "shutting_down", longest: PATIENT };
    }
    return { why: "lost", normal: performance.now() - opened > QUIET };
  }

  async #refused(response, sent) {
    const { status, code, message } = await answered(response);
    const asked = retryAfter(response);
    if (status === 401) {
      this.#options.onUnauthorized(sent);
    }
    if (code === "invalid_last_event_id" || code === "cursor_expired") {
      this.#options.onReset(code);
    }
    const why = status === 404 ? "unavailable" : code;
    const words = `The service answered ${status} ${code}: ${message}`;
    return { why, words, asked, longest: status === 503 ? PATIENT : undefined };
  }
}

// Rings when nothing has happened for a while.
class Watch {
  #timer = 0;
  #ring;
  rang = false;
  live = false;

  constructor(wait, ring) {
    this.#ring = () => {
      this.rang = true;
      ring();
    };
    this.restart(wait);
  }

  restart(wait) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#ring, wait);
  }

  stop() {
    clearTimeout(this.#timer);
  }
}
