// Judges a value by a published JSON Schema, with the few words that the schema of a readiness command uses. Pure.
//
// Laws: a schema with a word that is not known here judges nothing: better no verdict than a wrong one; texts are
// counted in code points, as Python counts them; patterns are read with the flag u, as the schema says.

const KNOWN = new Set(
  "type properties required additionalProperties minItems maxItems prefixItems items pattern minLength maxLength not"
    .concat(" minimum maximum $schema $id title description")
    .split(" "),
);

// Whether this page understands all of a schema.
export function isReadable(schema) {
  if (typeof schema === "boolean") {
    return true;
  }
  const parts = [...Object.values(schema.properties ?? {}), ...(schema.prefixItems ?? [])];
  const more = [schema.items, schema.not, schema.additionalProperties].filter((part) => part !== undefined);
  return Object.keys(schema).every((word) => KNOWN.has(word)) && [...parts, ...more].every(isReadable);
}

// Returns what is wrong: [{at, word, limit}], `at` as a path ("command/0"), `word` of the schema, `limit` its value.
export function judge(schema, value, at = "") {
  if (typeof schema === "boolean") {
    return schema ? [] : [{ at, word: "false", limit: null }];
  }
  if (schema.type && !TYPES[schema.type](value)) {
    return [{ at, word: "type", limit: schema.type }];
  }
  const broken = Object.keys(schema).filter((word) => Object.hasOwn(RULES, word) && !RULES[word](value, schema[word]));
  const own = broken.map((word) => ({ at, word, limit: schema[word] }));
  return [...own, ...(Array.isArray(value) ? itemsOf(schema, value, at) : membersOf(schema, value, at))];
}

const isText = (value) => typeof value === "string";
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

const TYPES = {
  string: isText,
  integer: Number.isInteger,
  array: Array.isArray,
  object: isObject,
};

const length = (text) => [...text].length;

// What a word asks of a value, where it is one that the word is about.
const RULES = {
  minItems: (value, least) => !Array.isArray(value) || value.length >= least,
  maxItems: (value, most) => !Array.isArray(value) || value.length <= most,
  minLength: (value, least) => !isText(value) || length(value) >= least,
  maxLength: (value, most) => !isText(value) || length(value) <= most,
  pattern: (value, pattern) => !isText(value) || new RegExp(pattern, "u").test(value),
  minimum: (value, least) => typeof value !== "number" || value >= least,
  maximum: (value, most) => typeof value !== "number" || value <= most,
  not: (value, schema) => judge(schema, value).length > 0,
  required: (value, names) => !isObject(value) || names.every((name) => Object.hasOwn(value, name)),
};

function itemsOf({ prefixItems = [], items = true }, value, at) {
  return value.flatMap((item, index) => judge(prefixItems[index] ?? items, item, `${at}/${index}`));
}

function membersOf({ properties = {}, additionalProperties = true }, value, at) {
  if (!isObject(value)) {
    return [];
  }
  return Object.entries(value).flatMap(([name, member]) =>
    judge(Object.hasOwn(properties, name) ? properties[name] : additionalProperties, member, `${at}/${name}`),
  );
}
