// What was typed as bytes, and bytes as a picture. Pure, but for the nodes that it makes.
//
// Laws: what is sent is what is drawn; every byte that has no glyph of its own is drawn by its name; the marked byte is
// told by a frame and by words, not by colour alone.

import { el } from "../dom.js";

const NAMES = { 0: "NUL", 9: "TAB", 10: "LF", 11: "VT", 12: "FF", 13: "CR", 27: "ESC", 127: "DEL" };
const ESCAPE = /\\(?:r|n|t|0|\\|x[0-9a-fA-F]{2})/g;
const AROUND = 6000; // bytes drawn on each side of the marked one

// `endings` is "crlf" (a line end that was typed is sent as CRLF) or "typed" (as LF); escapes are read where wanted.
export function toBytes(text, { endings, escapes }) {
  const lines = text.replace(/\r\n?/g, "\n");
  const typed = endings === "crlf" ? lines.replaceAll("\n", "\r\n") : lines;
  if (!escapes) {
    return new TextEncoder().encode(typed);
  }
  const parts = [];
  let start = 0;
  for (const { 0: escape, index } of typed.matchAll(ESCAPE)) {
    parts.push(new TextEncoder().encode(typed.slice(start, index)), Uint8Array.of(meant(escape)));
    start = index + escape.length;
  }
  parts.push(new TextEncoder().encode(typed.slice(start)));
  return joined(parts);
}

function meant(escape) {
  const simple = { r: 13, n: 10, t: 9, 0: 0, "\\": 92 }[escape[1]];
  return simple ?? Number.parseInt(escape.slice(2), 16);
}

function joined(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export function byteName(byte) {
  if (byte === undefined) {
    return "the end";
  }
  const glyph = byte > 32 && byte < 127 ? String.fromCharCode(byte) : byte === 32 ? "a space" : (NAMES[byte] ?? "");
  const hex = `0x${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  return glyph ? `${glyph} (${hex})` : hex;
}

// Lines of bytes with the place of each; the byte at `offset` is marked (null for none).
export function drawBytes(bytes, offset) {
  const first = Math.max(0, (offset ?? 0) - AROUND);
  const last = Math.min(bytes.length, (offset ?? 0) + AROUND);
  const lines = [];
  if (first > 0) {
    lines.push(cut(first, "before"));
  }
  for (let start = first; start < last || (start === last && offset === last && lines.length === 0);) {
    const end = endOfLine(bytes, start, last);
    lines.push(line(bytes, start, end, offset));
    if (end === start) {
      break;
    }
    start = end;
  }
  if (offset === last && last === bytes.length && bytes.length > 0) {
    lines.at(-1).lastElementChild.append(el("mark.byte", {}, "END"));
  }
  if (last < bytes.length) {
    lines.push(cut(bytes.length - last, "after"));
  }
  return el("div.bytes", { tabIndex: 0, role: "group", "aria-label": "The bytes that were judged" }, ...lines);
}

const cut = (size, where) => el("p.cut", {}, `${size} bytes ${where} this are not drawn.`);

function endOfLine(bytes, start, last) {
  const feed = bytes.subarray(start, last).indexOf(10);
  return feed < 0 ? last : start + feed + 1;
}

function line(bytes, start, end, offset) {
  const content = el("code");
  let plain = "";
  const flush = () => {
    content.append(plain);
    plain = "";
  };
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at];
    const glyph = byte >= 32 && byte < 127 ? String.fromCharCode(byte) : null;
    if (at === offset) {
      flush();
      content.append(el("mark.byte", { id: "offending" }, glyph === " " ? "SP" : (glyph ?? nameOf(byte))));
    } else if (glyph === null) {
      flush();
      content.append(el("span.byte", {}, nameOf(byte)));
    } else {
      plain += glyph;
    }
  }
  flush();
  const marked = offset !== null && offset >= start && offset < end;
  return el("div.line", { dataset: marked ? { marked: "" } : {} }, el("span.at", {}, String(start)), content);
}

const nameOf = (byte) => NAMES[byte] ?? byte.toString(16).toUpperCase().padStart(2, "0");
