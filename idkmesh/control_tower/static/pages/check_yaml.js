// A check as what is to be pasted into the declaration. Pure.
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

const PARTS = /^ {4}command: (\[.*\])\n {4}timeoutSecs: (\d+)$/m;

// `yaml` for a module that is declared (true), is not (false), or of which that is not known (null). Of a declared one
// it is a single line, which fits any indentation and leaves the name, kind and driver that stand there; a new one has
// what is missing, which the check of the file refuses until it is filled in.
export function toPaste(yaml, declared) {
  const parts = PARTS.exec(yaml);
  if (declared === true && parts) {
    return `readiness: {command: ${parts[1]}, timeoutSecs: ${parts[2]}}\n`;
  }
  return declared === false ? yaml.replace(/^( {2})readiness:$/m, `${TO_FILL_IN}$&`) : yaml;
}

const TO_FILL_IN = [
  "  kind:  # stateless, singleton or stateful\n",
  "  driver:  # lxd, with instances or a selector besides; or process, with replicas and process\n",
].join("");

export function yamlOf({ name, command, timeoutSecs }) {
  const lines = [
    `- name: ${quoted(name)}`,
    "  readiness:",
    `    command: [${command.map(quoted).join(", ")}]`,
    `    timeoutSecs: ${timeoutSecs}`,
  ];
  return `${lines.join("\n")}\n`;
}
