// The event stream, read with fetch so that it carries the token in a field.
//
// Laws: exactly one connection at a time; every end leads to a next try (a refusal waits with back-off and honours
// Retry-After, a stream that lived its time is opened again at once); it resumes after the last event that arrived, or
// where the service said that the stream began; silence beyond two heartbeats is an end; an error of this page's own is
// never called a lost connection without the console saying so.

import { answered } from "./api.js";
import { backoff } from "./backoff.js";
import { SseParser } from "./sse.js";
import { instant } from "./state.js";

const PATH = "/api/v1/events/stream";
const OPENING = 8000; // ms until a stream that does not open counts as lost
const SLOW = 1000; // ms until a person is told that it is being opened
const EARLY = 500; // ms by which a planned end may come before its time: the head took some of it
const PATIENT = 8000; // the longest back-off while the service answers, so a place that is free is taken soon

export class EventStream {
  #options;
  #abort = new AbortController();
  #stopped = false;
  #wake = () => {};
  #tries = 0;

  // `options`: token(), position(), silence() and lifetime() in ms, onEvents(events), onOpen({position, resumed}),
  // onReset(code),
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
      this.#options.onPhase({ phase: "waiting", why, words, until: instant() + wait, at: 0 });
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
      const response = await got(fetch(PATH, {
        headers: { "X-IDKMesh-UI-Token": sent, ...(position ? { "Last-Event-ID": position } : {}) },
        cache: "no-store",
        redirect: "error",
        signal: this.#abort.signal,
      }));
      slow.stop();
      return response.ok ? await this.#read(response, position, watch) : await this.#refused(response, sent);
    } catch (error) {
      if (error instanceof Unreadable) {
        return { why: "unreadable" };
      }
      if (!(error instanceof Gone)) {
        console.error(error);
      }
      return { why: watch.rang && watch.live ? "silent" : "lost" };
    } finally {
      this.#abort.abort(); // whatever the reason, no second connection beside the next one
      watch.stop();
      slow.stop();
    }
  }

  async #read(response, position, watch) {
    const opened = instant();
    let draining = false;
    let batch = [];
    const parser = new SseParser(({ type, data }) => {
      if (type === "shutting_down") {
        draining = true;
      } else {
        batch.push(event(data));
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
      this.#options.onPhase({ phase: "live", why: "", until: 0, at: instant() });
      const { done, value } = await got(reader.read());
      if (done) {
        break;
      }
      const whole = parser.feed(value);
      if (batch.length > 0) {
        this.#options.onEvents(batch);
        batch = [];
        this.#tries = 0;
      }
      if (!whole) {
        throw new Unreadable();
      }
    }
    if (draining) {
      return { why: "shutting_down", longest: PATIENT };
    }
    return { why: "lost", normal: instant() - opened > this.#options.lifetime() - EARLY };
  }

  async #refused(response, sent) {
    const { status, code, message, retryAfter: asked } = await got(answered(response));
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

class Gone extends Error {} // the connection failed, or was given up

class Unreadable extends Error {} // what arrived is no event

async function got(promise) {
  try {
    return await promise;
  } catch (error) {
    throw new Gone(String(error));
  }
}

function event(data) {
  try {
    return JSON.parse(data);
  } catch {
    throw new Unreadable();
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
