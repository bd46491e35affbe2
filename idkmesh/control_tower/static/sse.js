// Reads the bytes of a text/event-stream into events: the parser of WHATWG HTML 9.2.6, and nothing else.
//
// Laws: no input throws; what is not a whole event when the stream ends is dropped, as the standard says; lines end at
// CR, LF and CRLF alone; an id with NUL is ignored; the last id outlives an event that has none; no line and no event
// grows beyond MOST, which the standard does not say.

const MOST = 2 ** 20; // characters: the largest event of this service has a sixteenth of it

export class SseParser {
  #decoder = new TextDecoder("utf-8", { ignoreBOM: true }); // the mark is removed here, once, at the very start
  #rest = ""; // a line that has not ended
  #afterCr = false; // the last chunk ended in CR: an LF that follows belongs to it
  #first = true;
  #data = [];
  #size = 0; // of #data
  #whole = true;
  #type = "";
  #lastId = "";
  #onEvent;
  #onComment;

  constructor(onEvent, onComment = () => {}) {
    this.#onEvent = onEvent;
    this.#onComment = onComment;
  }

  // Takes bytes as they arrive, split anywhere. Returns false once a line or an event was too long: nothing is read
  // after it.
  feed(bytes) {
    if (this.#whole) {
      this.#read(bytes);
    }
    return this.#whole;
  }

  #read(bytes) {
    let text = this.#decoder.decode(bytes, { stream: true });
    if (text === "") {
      return;
    }
    if (this.#first) {
      this.#first = false;
      text = text.startsWith("\uFEFF") ? text.slice(1) : text;
    }
    if (this.#afterCr && text !== "") {
      this.#afterCr = false;
      text = text.startsWith("\n") ? text.slice(1) : text;
    }
    this.#lines(text);
  }

  #lines(text) {
    let start = 0;
    for (const { index, 0: end } of text.matchAll(/\r\n|\r|\n/g)) {
      this.#line(this.#rest + text.slice(start, index));
      if (!this.#whole) {
        return;
      }
      this.#rest = "";
      start = index + end.length;
      this.#afterCr = end === "\r" && start === text.length;
    }
    this.#rest += text.slice(start);
    this.#bound(this.#rest.length);
  }

  #bound(size) {
    if (size > MOST) {
      this.#whole = false;
      this.#rest = "";
      this.#data = [];
    }
  }

  #line(line) {
    if (line === "") {
      this.#dispatch();
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) {
      this.#onComment(line.slice(1));
      return;
    }
    const name = colon < 0 ? line : line.slice(0, colon);
    const raw = colon < 0 ? "" : line.slice(colon + 1);
    this.#field(name, raw.startsWith(" ") ? raw.slice(1) : raw);
  }

  #field(name, value) {
    if (name === "data") {
      this.#data.push(value);
      this.#size += value.length;
      this.#bound(this.#size);
    } else if (name === "event") {
      this.#type = value;
    } else if (name === "id" && !value.includes("\0")) {
      this.#lastId = value;
    }
    // `retry` and unknown fields: the page has a back-off of its own.
  }

  #dispatch() {
    const data = this.#data;
    const type = this.#type || "message";
    this.#data = [];
    this.#size = 0;
    this.#type = "";
    if (data.length > 0) {
      this.#onEvent({ type, data: data.join("\n"), lastEventId: this.#lastId });
    }
  }
}
