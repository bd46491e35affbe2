// The tabs of one browser: one of them leads (asks the service, reads the stream), the others are told.
//
// Laws: at most one tab holds the lock, so at most one stream is open, but for the seconds in which a tab that has hung
// has not yet seen that the lock was taken from it; a tab that ends gives the lock up by ending; a
// visible tab takes it from one that is hidden or has gone quiet, because browsers slow the timers of hidden tabs down.

import { instant } from "./state.js";

const NAME = "idkmesh-control-tower";
const BEAT = 1000; // ms
const QUIET = 3000; // ms without a word from the leader

export class Tabs {
  #channel = new BroadcastChannel(NAME);
  #on;
  #standing = false; // wants to lead
  #queued = null; // the wish that waits for the lock
  #release = null; // gives the lock back; set while this tab leads
  #heard = instant();
  #hiddenLeader = false;

  // `on`: lead(), follow(), message(data).
  constructor(on) {
    this.#on = on;
    this.#channel.onmessage = ({ data }) => this.#message(data);
    setInterval(() => this.#beat(), BEAT);
    document.addEventListener("visibilitychange", () => this.#beat());
  }

  get leads() {
    return this.#release !== null;
  }

  send(message) {
    this.#channel.postMessage(message);
  }

  stand() {
    if (!this.#standing) {
      this.#standing = true;
      this.#heard = instant();
      this.#hold(false);
    }
  }

  withdraw() {
    this.#standing = false;
    this.#queued?.abort();
    this.#release?.();
  }

  async #hold(steal) {
    this.#queued?.abort();
    this.#queued = steal ? null : new AbortController();
    const options = steal ? { steal: true } : { signal: this.#queued.signal };
    let led = false;
    try {
      await navigator.locks.request(NAME, options, () => {
        if (!this.#standing) {
          return undefined;
        }
        this.#queued = null;
        led = true;
        return new Promise((resolve) => {
          this.#release = resolve;
          this.#on.lead();
          this.#beat();
        });
      });
    } catch {
      // Withdrawn while it waited, or taken by a visible tab.
    }
    if (led) {
      this.#release = null;
      this.#heard = instant();
      this.#hiddenLeader = false;
      this.#on.follow();
      if (this.#standing) {
        this.#hold(false);
      }
    }
  }

  #beat() {
    const visible = document.visibilityState === "visible";
    if (this.leads) {
      this.send({ kind: "beat", visible });
    } else if (this.#standing && visible && (this.#hiddenLeader || instant() - this.#heard > QUIET)) {
      this.#hiddenLeader = false;
      this.#heard = instant();
      this.#hold(true);
    }
  }

  #message(data) {
    if (data.kind === "beat") {
      this.#heard = instant();
      this.#hiddenLeader = !data.visible;
    } else {
      this.#on.message(data);
    }
  }
}
