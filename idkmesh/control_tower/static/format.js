// Figures, times and foreign text as a person reads them. Pure.

const DIGITS = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });

export const number = (value) => (typeof value === "number" ? DIGITS.format(value) : String(value));

export function count(value, one, many = `${one}s`) {
  return `${number(value)} ${value === 1 ? one : many}`;
}

export function bytes(value) {
  for (const [unit, size] of [
    ["GiB", 2 ** 30],
    ["MiB", 2 ** 20],
    ["KiB", 2 ** 10],
  ]) {
    if (value >= size) {
      return `${DIGITS.format(Math.round((value / size) * 10) / 10)} ${unit}`;
    }
  }
  return `${number(value)} B`;
}

// The two largest units that say something: "2 h 5 min", "7 s".
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const parts = [
    [Math.floor(whole / 86_400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([size]) => size > 0);
  const shown = first < 0 ? [[0, "s"]] : parts.slice(first, first + 2);
  return shown
    .filter(([size], index) => index === 0 || size > 0)
    .map((part) => part.join(" "))
    .join(" ");
}

const two = (value) => String(value).padStart(2, "0");

// Local time with milliseconds: what a row shows. Text that is no date is shown as it is.
export function clock(text) {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) {
    return visible(String(text));
  }
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  return `${time}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

// The same without milliseconds: what a sentence says.
export const clockSeconds = (text) => clock(text).replace(/\.\d{3}$/, "");

export function dayAndHour(text, now = new Date()) {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) {
    return "At an unknown time";
  }
  const midnight = (day) => new Date(day.getFullYear(), day.getMonth(), day.getDate()).getTime();
  const days = Math.round((midnight(now) - midnight(date)) / 86_400_000);
  const form = { weekday: "long", day: "numeric", month: "long", year: "numeric" };
  const day = { 0: "Today", 1: "Yesterday" }[days] ?? date.toLocaleDateString("en", form);
  return `${day}, ${two(date.getHours())}:00 to ${two((date.getHours() + 1) % 24)}:00`;
}

export function dateTime(text) {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) {
    return visible(String(text));
  }
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()].map(two).join("-");
  return `${day} ${clock(text).slice(0, 8)}`;
}

// The zone of a local time, as an offset: "UTC+02:00".
export function zone(text) {
  const minutes = -new Date(text).getTimezoneOffset();
  if (!minutes) {
    return Number.isNaN(minutes) ? "" : "UTC";
  }
  const size = Math.abs(minutes);
  return `UTC${minutes < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

// What would command the reader's eye without being seen: controls, marks of direction, zero widths.
// Unicode's Default_Ignorable_Code_Point has tags, fillers and variation selectors too; the blank of Braille and the
// marks of annotations are not in it.
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2800\ufff9-\ufffb\p{Default_Ignorable_Code_Point}]/gu;

// Foreign text with such characters written out; tabs and line feeds stay.
export function visible(text) {
  return text.replace(UNSEEN, (character) => {
    const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `\u27e8U+${code}\u27e9`;
  });
}

export function shortened(text, most) {
  return text.length > most ? `${text.slice(0, most)}\u2026` : text;
}

export const pretty = (document) => visible(JSON.stringify(document, null, 2));

// A name as it stands in a document, as words: "max_body_bytes" is "Body, at most".
export function limitName(key) {
  const words = key
    .replace(/_(seconds|bytes)$/, "")
    .replaceAll("_", " ")
    .replace(/\bsse\b/, "event stream");
  const name = words
    .replace(/^event stream max stream$/, "event stream age, at most")
    .replace(/^max event stream clients$/, "event streams, at most")
    .replace(/^max (.*)$/, "$1, at most");
  return name.charAt(0).toUpperCase() + name.slice(1);
}

export function amount(key, value) {
  if (typeof value === "number" && key.endsWith("_seconds")) {
    return `${number(value)} s`;
  }
  if (typeof value === "number" && key.endsWith("_bytes")) {
    return bytes(value);
  }
  if (typeof value === "boolean") {
    return value ? "yes" : "no";
  }
  return typeof value === "number" ? number(value) : visible(String(value).replaceAll("_", " "));
}
