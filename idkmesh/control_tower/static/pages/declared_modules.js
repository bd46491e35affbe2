// Which modules the declaration of this tower has, asked once for the form.
//
// Laws: what is not known is not guessed: a tower that was given no declaration, is older, or does not answer says
// nothing of a name; a refusal is asked again no sooner than it says.

import { ask } from "../api.js";
import { backoff } from "../backoff.js";

const PATIENCE = 10_000; // ms: a thousand with all their instances are megabytes

export class DeclaredModules {
  #names = null;
  #timer = 0;
  #open = true;
  #changed;

  constructor(changed) {
    this.#changed = changed;
    this.#read(1);
  }

  close() {
    this.#open = false;
    clearTimeout(this.#timer);
  }

  // Whether a module of this name is declared; null where that is not known.
  has(name) {
    return this.#names && this.#names.has(name);
  }

  async #read(tries) {
    const answer = await ask("/api/v1/modules", { patience: PATIENCE }).catch(() => null);
    if (!this.#open) {
      return;
    }
    const { items, lease } = answer?.body ?? {};
    if (answer?.ok && Array.isArray(items)) {
      this.#names = lease?.role === "none" ? null : new Set(items.map(({ name }) => name));
      this.#changed();
    } else if (!answer || answer.status >= 500) {
      this.#timer = setTimeout(() => this.#read(tries + 1), backoff(tries, answer?.retryAfter ?? 0));
    }
  }
}
