// A check as lines for modules.yaml, and as an object for the service. Pure.
//
// Laws: every text is quoted, so that none is read as a number, a date, a boolean or the beginning of something else;
// what a reader of YAML would fold or refuse, and what nobody would see, is written as an escape that YAML and JSON share.

const UNSEEN = /[\u007f-\u00a0\u2028-\u202e\ufdd0-\ufdef\ufff0-\uffff\p{Default_Ignorable_Code_Point}\p{Cn}\p{Co}\p{Cs}]/gu;

// A flow scalar in double quotes: JSON's, and beyond U+FFFF YAML's own escape: no reader joins halves of pairs.
export function quoted(text) {
  return JSON.stringify(text).replace(UNSEEN, (character) => {
    const code = character.codePointAt(0).toString(16);
    return code.length > 4 ? `\\U${code.padStart(8, "0")}` : `\\u${code.padStart(4, "0")}`;
  });
}

export function yamlOf({ name, command, timeoutSecs }) {
  const list = `[${command.map(quoted).join(", ")}]`;
  return [
    `- name: ${quoted(name)}  # the module of this name, in "modules:"`,
    `  readiness: {command: ${list}, timeoutSecs: ${timeoutSecs}}`,
    "",
  ].join("\n");
}
