// What is wrong with a field of the form "Application check", in plain words. Pure.

import { number, shortened, visible } from "../format.js";

const size = (value) => [...String(value)].length;
const tooLong = (limit, value) => `It has ${number(size(value))} characters; ${number(limit)} are the most.`;
const FIGURE = (least, most) => `Write a whole number of seconds, ${number(least)} to ${number(most)}.`;

// By kind of field and word of the schema; each gets the limit and the value.
const WORDS = {
  name: {
    minLength: () => "Write the name of the module.",
    maxLength: tooLong,
    pattern: () => "A name has a-z and 0-9, with - inside: no capitals, no spaces, no underscore.",
  },
  program: {
    minLength: () => "Write a program: its name, or its path in the instance, such as /usr/bin/pg_isready.",
    maxLength: tooLong,
    pattern: (_, value) =>
      /\s/.test(value)
        ? "A program has no spaces. Its arguments have fields of their own, one each."
        : "A program has A-Z, a-z, 0-9 and _ . / + - alone.",
    not: () => "This is a shell, which would make a script of an argument. Name the program itself, with its arguments.",
  },
  argument: {
    maxLength: tooLong,
    pattern: () => "It has a control character, such as a tab or a line end. An argument has none.",
  },
};

// `kind` is name, program, argument or timeout; `faults` are those of readiness_schema.js for this field.
export function faultWords(kind, faults, value, { least, most } = {}) {
  if (faults.length === 0) {
    return "";
  }
  if (kind === "timeout") {
    return FIGURE(least, most);
  }
  // Of an empty text the pattern says nothing that the length does not; of a shell in place the rest is no matter.
  const order = ["minLength", "not", "maxLength", "pattern"];
  const { word, limit } = [...faults].sort((one, other) => order.indexOf(one.word) - order.indexOf(other.word))[0];
  return WORDS[kind][word]?.(limit, value) ?? "The schema refuses it.";
}

// A finding of the service, on one line.
export const findingWords = ({ what, mend }) =>
  [what, mend]
    .filter(Boolean)
    .map((part) => visible(shortened(String(part), 300)))
    .join(": ");
