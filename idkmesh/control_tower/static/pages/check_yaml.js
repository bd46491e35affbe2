// A check as lines for the list of modules. Pure.
//
// Laws: every text is quoted, so that none is read as a number, a date, a boolean or the beginning of something else;
// whatever does not print is escaped, and shown so: it is the form in which the service itself writes it.

const UNPRINTED = /["\\\p{C}\p{Z}]/gu;

// A flow scalar in double quotes (YAML 1.2, 5.7). The long escape is for all: no reader joins halves of pairs.
export function quoted(text) {
  return `"${text.replace(UNPRINTED, escaped)}"`;
}

function escaped(character) {
  if (character === " ") {
    return character;
  }
  const code = character.codePointAt(0).toString(16).padStart(8, "0");
  return character === '"' || character === "\\" ? `\\${character}` : `\\U${code}`;
}

export function yamlOf({ name, command, timeoutSecs }) {
  const lines = [
    `- name: ${quoted(name)}`,
    "  readiness:",
    `    command: [${command.map(quoted).join(", ")}]`,
    `    timeoutSecs: ${timeoutSecs}`,
  ];
  return `${lines.join("\n")}\n`;
}
