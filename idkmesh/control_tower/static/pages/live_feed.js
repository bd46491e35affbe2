// Asks for a list of what is known, while somebody looks at it.
//
// Laws: nothing is asked for while the page is closed or hidden; one question at a time, at most once a second, and
// for no more than a fifth of the time, so that a list of a thousand does not keep the service busy with telling of it,
// but each five seconds at least; a refusal is asked again no sooner than it says, and later each time; what came has
// an age; nothing is asked for where it is known that there is nothing.

import { ask } from "../api.js";
import { backoff } from "../backoff.js";
import { duration } from "../format.js";
import { instant, onChange } from "../state.js";
import { picked } from "../words.js";

const BEAT = 1000; // ms between the starts of two questions
const SHARE = 5; // times as long as the answer took
const SLOWEST = 5000; // ms
const PATIENCE = 10_000; // ms: a thousand with all their results are megabytes
const LATE = 1500; // ms beyond the time of the next answer, after which what is shown counts as old

const WORDS = {
  overloaded: "The service has no room for the question. If it lasts, raise --max-concurrent-requests.",
  shutting_down: "The service is shutting down and tells no more.",
};

const listOf = (body) => (Array.isArray(body?.items) ? body : null);

export class LiveFeed {
  list = null; // the last document
  code = ""; // of the last refusal, empty where there was an answer or none at all
  at = 0; // when it came, see `instant`
  trouble = ""; // why there is no newer one
  isWanted; // whether it is asked for at all
  pace = BEAT; // ms from one question to the next
  #until = 0; // when the next is asked
  #timer = 0;
  #tries = 0;
  #asking = false;
  #open = true;
  #path;
  #words;
  #onAnswer;
  #read;
  #wanted;
  #seen = () => this.#look();
  #leave = onChange(() => this.#turn());

  // `words` are those for refusals, by their code, that mean something else here than elsewhere. `read(body)` makes the
  // list, an object with `items`, of what came; null where it is none. `wanted()` says, by what is known of the service,
  // whether there is such a list.
  constructor(path, words, onAnswer, read = listOf, wanted = () => true) {
    this.#path = path;
    this.#words = { ...WORDS, ...words };
    this.#onAnswer = onAnswer;
    this.#read = read;
    this.#wanted = wanted;
    this.isWanted = wanted();
    document.addEventListener("visibilitychange", this.#seen);
    this.#ask();
  }

  close() {
    this.#open = false;
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.#seen);
    this.#leave();
  }

  // A service that was started again may have such a list no more, or now.
  #turn() {
    if (this.isWanted === this.#wanted()) {
      return;
    }
    this.isWanted = !this.isWanted;
    this.list = null;
    this.trouble = this.code = "";
    this.#look();
    this.#onAnswer();
  }

  // Milliseconds since the last answer; null before the first.
  age(now = instant()) {
    return this.list ? now - this.at : null;
  }

  isOld(now = instant()) {
    return this.list !== null && now - this.at > this.pace + LATE;
  }

  // What is wrong, and when it is asked again; empty where nothing is.
  words(now = instant()) {
    return [this.trouble, this.trouble && this.again(now)].filter(Boolean).join(" ");
  }

  again(now = instant()) {
    const left = Math.ceil((this.#until - now) / 1000);
    return left > 0 ? `Asked again in ${duration(left)}.` : "";
  }

  // Whether the service has no such list at all, which is no fault of anything.
  get isAbsent() {
    return this.list === null && this.code === "not_found";
  }

  // A hidden page is not read. What Retry-After or a back-off put off stays put off.
  #look() {
    clearTimeout(this.#timer);
    if (this.isWanted && document.visibilityState === "visible") {
      this.#timer = setTimeout(() => this.#ask(), Math.max(this.#until - instant(), 0));
    }
  }

  async #ask() {
    if (this.#asking || !this.#open || !this.isWanted || document.visibilityState !== "visible") {
      return;
    }
    this.#asking = true;
    const answer = await ask(this.#path, { patience: PATIENCE }).catch(() => null);
    this.#asking = false;
    if (this.#open && this.isWanted) {
      this.#took(answer);
      this.#look();
      this.#onAnswer();
    }
  }

  // The pace counts from when the question was sent: before that it may have waited for another of this tab.
  #took(answer) {
    const now = instant();
    const list = answer?.ok ? this.#read(answer.body) : null;
    if (list) {
      this.list = list;
      this.at = now;
      this.trouble = this.code = "";
      this.#tries = 0;
      this.pace = Math.min(Math.max(SHARE * answer.took, BEAT), SLOWEST);
      this.#until = Math.max(now - answer.took + this.pace, now + BEAT / 2);
    } else {
      this.#tries += 1;
      this.code = answer?.code ?? "";
      this.trouble = this.#troubleOf(answer);
      this.#until = now + Math.max(backoff(this.#tries, answer?.retryAfter ?? 0), BEAT);
    }
  }

  #troubleOf(answer) {
    if (!answer) {
      return "The service does not answer.";
    }
    return picked(this.#words, answer.code, `The service answered ${answer.status} ${answer.code}: ${answer.message}`);
  }
}
