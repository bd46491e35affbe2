// What a person reads of a module and its instances: how each is and since when, what comes next, what to do. Pure.

import { clockSeconds, count, dateTime, duration, number, shortened, visible, zone } from "../format.js";
import { picked } from "../words.js";

const RESTART_AFTER = 60; // seconds that a replica is unhealthy before a restart falls due (AR-5.1)
const MOST = 200; // characters of foreign words
const EXACT = 600; // seconds up to which they are told as such

const HEALTHS = { healthy: ["Healthy", "good"], unhealthy: ["Unhealthy", "bad"], unknown: ["Unknown", "unknown"] };
const OUTCOMES = { passes: ["passes", "good"], fails: ["fails", "bad"], nothing: ["says nothing", "unknown"] };

const KINDS = {
  stateless:
    "Stateless: a replica that has been unhealthy for 60 s is restarted, one of the module at a time, each at most once " +
    "in a cooldown.",
  singleton: "Singleton: reported only. It is never restarted; when it is unhealthy, somebody has to look at it.",
  stateful: "Stateful: reported only. It is never restarted; when it is unhealthy, somebody has to look at it.",
};

export const foreign = (text) => visible(shortened(String(text), MOST));

// What counts down or up in whole seconds, as a supervisor does.
export const seconds = (value) => (value < EXACT ? `${number(Math.max(0, Math.ceil(value)))} s` : duration(value));

const healthOf = ({ health }) => picked(HEALTHS, health, [foreign(health), "unknown"]);

// What the newest checks say where the health is the other one: it is on the way there; null where they agree.
export function against({ health, progress, port_check: port, readiness_command: command }) {
  const outcomes = [port, command].map((check) => check?.outcome);
  const newest = ["fails", "passes"].find((outcome) => outcomes.includes(outcome)) ?? null;
  const isOther = { healthy: "fails", unhealthy: "passes" }[String(health)] === newest;
  return newest !== null && isOther && progress?.outcome === newest ? newest : null;
}

export const failsNow = (instance) => against(instance) === "fails";

// The sign of an instance: of its health, and a warning where it is healthy and its checks fail now.
export const signOf = (instance) => (failsNow(instance) ? "warn" : healthOf(instance)[1]);

export const isReportedOnly = ({ module_kind: kind }) => kind !== "stateless";

export const kindMeaning = ({ module_kind: kind }) => picked(KINDS, kind, "What may be done to it is not known here.");

// Whether somebody may want to look at an instance: it is not healthy, or on the way to another health.
export const isNotable = ({ health, progress }) => health !== "healthy" || progress !== null;

// Whether no instance of a module is seen by who asks for them: nothing is known of it then.
export const isUnseen = ({ instances, lease: { role } }) =>
  instances.length === 0 && (role === "holder" || role === "observer");

// The sign of a module: that of its worst instance, and none of a colour where nobody has asked for any.
export function moduleSign(module) {
  const { counts, instances } = module;
  if (instances.length === 0) {
    return isUnseen(module) ? "unknown" : "idle";
  }
  const calm = instances.some(failsNow) ? "warn" : "good";
  return counts.unhealthy > 0 ? "bad" : counts.unknown > 0 ? "unknown" : calm;
}

const UNSEEN =
  "No instance of it is seen, so nothing is known of it: its platform has none that the declaration names or selects, " +
  "or does not answer. The log of the supervisor says which; correct the declaration, or create them.";

// Why a module has no instance here, or nothing new is known of those that it has; empty where neither is so. A service
// of before gives no reason.
export function unseenWords(module) {
  const { instances, lease, reason = null } = module;
  if (instances.length > 0) {
    return reason === null ? "" : `Nothing new is known of its instances: ${foreign(reason)}.`;
  }
  if (isUnseen(module) && reason !== null) {
    return `No instance of it is seen, so nothing is known of it: ${foreign(reason)}.`;
  }
  const waits = lease.role === "standby" ? "This supervisor is on standby: it asks for no instances." : "";
  return isUnseen(module) ? UNSEEN : waits || "No pass has been made: nobody has asked for its instances.";
}

export function countWords({ counts, instances, lease }) {
  if (instances.length === 0) {
    return lease.role === "standby" ? "not asked by this supervisor" : "no instance seen";
  }
  const parts = ["unhealthy", "unknown", "healthy"].filter((health) => counts[health] > 0);
  const failing = instances.filter(failsNow).length;
  const now = failing > 0 ? [count(failing, "fails now", "fail now")] : [];
  return [...parts.map((health) => `${number(counts[health])} ${health}`), ...now].join(", ");
}

// [how it is and for how long, why].
export function stateWords(instance, passed) {
  const why = [instance.reason, instance.detail].find((text) => text !== null && text !== "") ?? "";
  const now = { fails: ", but its checks fail now", passes: ", but its checks pass now" }[against(instance)] ?? "";
  return [`${healthOf(instance)[0]} for ${duration(instance.since_seconds + passed)}${now}`, foreign(why)];
}

// [outcome, sign, why] of a check. `there`: whether the module declares it.
export function checkWords(check, there) {
  if (!check) {
    return there ? ["not made", "idle", "in the newest pass"] : ["none", "idle", "not declared"];
  }
  const [word, kind] = picked(OUTCOMES, check.outcome, [foreign(check.outcome), "unknown"]);
  return check.misdeclared ? ["misdeclared", "warn", foreign(check.reason)] : [word, kind, foreign(check.reason)];
}

export function checkFigures(check, passed) {
  if (!check || check.age_seconds === null) {
    return "";
  }
  return `${duration(check.age_seconds + passed)} ago, took ${number(Math.round(check.took_seconds * 1000))} ms`;
}

// How far a run of results has come towards another health: {text, share, kind}; null where it leads nowhere new. It
// grows with each pass and not between: nobody has asked meanwhile.
export function hysteresis({ progress }) {
  if (!progress) {
    return null;
  }
  const { outcome, seconds: by, of_seconds: of } = progress;
  const fails = outcome === "fails";
  const text = `${number(Math.floor(by))} of ${number(of)} s ${fails ? "failing" : "passing"}`;
  return { text, share: by / of, kind: fails ? "bad" : "good" };
}

// What stands between an unhealthy replica and its restart: {text, share, kind}; null where none would come.
export function restartWords(instance, module, passed) {
  const { health, restart_due_seconds: due, since_seconds: since } = instance;
  if (health === "unhealthy" && isReportedOnly(module)) {
    return { text: "reported only, never restarted", share: null, kind: "idle" };
  }
  if (due === null) {
    return null;
  }
  const by = since + passed;
  const left = due - passed;
  const wait = waitWords(instance, module, Math.max(left, 0), passed);
  if (left > 0) {
    const whole = Math.floor(Math.min(by, RESTART_AFTER));
    const others = module.instances.filter((other) => other.name !== instance.name && other.restart_due_seconds !== null);
    const then = others.length > 0 ? "then restarted, one of the module at a time" : "then restarted";
    const text = `unhealthy for ${whole} s of ${RESTART_AFTER} s, ${wait || then}`;
    return { text, share: by / RESTART_AFTER, kind: "bad" };
  }
  const next = "it is done by the next pass, if its checks fail then too";
  return { text: `restart due: ${wait || next}`, share: 1, kind: "bad" };
}

// What holds a restart up that falls due in `left` seconds; empty where nothing does that is known.
function waitWords({ name, cooldown_seconds: cooldown }, module, left, passed) {
  if (!module.lease.held) {
    return "not restarted: this supervisor does not hold the lease";
  }
  if (cooldown - passed > left) {
    return "restarted no sooner than its cooldown ends";
  }
  const other = outstanding(module, passed);
  return other && other.name !== name && other.left > left
    ? `restarted no sooner than ${foreign(other.name)} is healthy again or its cooldown is over${other.within}`
    : "";
}

// The replica that holds the others of its module up: {name, left, within}, `left` the seconds that it can do so at
// most, `within` the same in words; null where none does.
function outstanding({ restart_outstanding: name, instances }, passed) {
  if (name === null) {
    return null;
  }
  const cooldown = instances.find((instance) => instance.name === name)?.cooldown_seconds;
  const left = cooldown === undefined ? Infinity : cooldown - passed;
  return left > 0 ? { name, left, within: left === Infinity ? "" : `, in ${seconds(left)}` } : null;
}

// The same for the whole module; empty where nobody is held up.
export function outstandingWords(module, passed) {
  const other = outstanding(module, passed);
  const until = "no other one is restarted until it is, or until its cooldown is over";
  return other ? `${foreign(other.name)} was restarted and is not healthy again: ${until}${other.within}.` : "";
}

export function cooldownWords({ cooldown_seconds: cooldown }, passed) {
  return cooldown - passed > 0 ? `cooldown: ${seconds(cooldown - passed)} left` : "";
}

export function restartsWords({ restarts }) {
  return restarts === 1 ? "1 restart" : `${number(restarts)} restarts`;
}

const ENDS = { pending: "asked for, and not known to have come about", done: "done", failed: "failed" };

export function lastRestart({ last_restart: last }, passed) {
  if (!last) {
    return "";
  }
  const when = last.age_seconds === null ? dateTime(last.time) : `${duration(last.age_seconds + passed)} ago`;
  const end = picked(ENDS, last.outcome, foreign(last.outcome));
  return `${when}, ${clockSeconds(last.time)}: ${[end, foreign(last.detail)].filter(Boolean).join(": ")}`;
}

// [pattern of a check's reason, what to do]: the words are those of the checks (AR-3).
const ADVICE = [
  [/^exit status 12[67]/, "The program is missing in the instance, or may not be run there. Install it, or declare its path."],
  [/^over its time limit$|^killed at its limit$/, "It did not end in its time, and was killed. Run it by hand to see what it waits for."],
  [/^ended by signal \d+$/, "A signal ended it. See whether the instance is short of memory."],
  [/^exit status \d+$/, "Run the same command by hand in the instance: its output says more than is kept here."],
  [/^refused$/, "Nothing listens at the port. See that the program runs, and that the declaration names its port."],
  [/never seen open$/, "No way may lead to the port from here. Look at the network and firewalls between."],
  [/^timeout$/, "The port was open, and no longer answers. See whether the program is overloaded."],
  [/^the load balancer takes it for down$/, "The load balancer finds it down at the port. See that the program answers there."],
  [/^no (numeric )?address$/, "The platform names no address of it. See that its network is up."],
  [/driver has not come back/, "The platform hangs. Look at its daemon."],
];

const REASONS = {
  "the instance is stopped": "Start it again, or take it out of the declaration. A supervisor restarts only what runs.",
  "the instance is frozen": "Somebody has paused it. Let it go on, or take it out of the declaration.",
  "the instance is not there": "Its platform has none of that name. Create it, or correct the declaration.",
  "its platform does not answer for it": "Look at the cluster member that it runs on.",
  "its platform tells nothing of its instances": "Look at the platform's daemon, and at how the declaration reaches it.",
  "not seen yet": "No pass has been made. There is nothing to do but to wait.",
};

// Empty where there is nothing to do.
export function advice(instance, module) {
  const { health, reason, owned, port_check: port, readiness_command: command } = instance;
  if (owned === false) {
    const key = `user.idkmesh.module: ${visible(module.name)}`;
    return `It is never run in: its configuration does not say ${key}. Set that if it is yours.`;
  }
  if (reason !== null) {
    return picked(REASONS, reason, "No check was made in it. The log of the supervisor says more.");
  }
  if (command?.misdeclared) {
    return "Its command leaves something running that holds its output. Declare one that ends with all that it starts.";
  }
  const checks = [port, command].filter(Boolean);
  const telling = checks.find(({ outcome }) => outcome === "fails") ?? checks.find(({ outcome }) => outcome === "nothing");
  if (!telling) {
    return health === "healthy" ? "" : "Its checks pass. It is healthy when they have passed for 20 s.";
  }
  const known = ADVICE.find(([pattern]) => pattern.test(String(telling.reason)));
  return known?.[1] ?? "Look at the instance itself. The word is its check's.";
}

// The rows of an instance in the panel: [name, value, note].
export function instanceRows(instance, module, passed) {
  const { since, evidence_age_seconds: age, state, location, restart_withheld: withheld } = instance;
  const told = (name, check, there) => {
    const [word, , why] = checkWords(check, there);
    return [name, why ? `${word}: ${why}` : word, checkFigures(check, passed)];
  };
  return [
    ["State", stateWords(instance, passed)[0], `since ${dateTime(since)} ${zone(since)}`],
    told("Port check", instance.port_check, module.port !== null),
    told("Readiness command", instance.readiness_command, module.readiness !== null),
    ["Newest evidence", age === null ? "none" : `${duration(age + passed)} ago`, foreign(instance.detail)],
    ["Instance", state === null ? "not seen yet" : foreign(state), location === null ? "" : `on ${foreign(location)}`],
    ["Restarts", number(instance.restarts), isReportedOnly(module) ? "reported only" : "since it was first seen"],
    ["Last restart", lastRestart(instance, passed)],
    ["Not restarted", withheld === null ? "" : foreign(withheld), "the last time that it was due"],
  ].filter(([, value]) => value !== "");
}
