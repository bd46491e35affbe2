// Words for the events of releases and of invocations (RT-10): rows as in words.js. Pure.

const SIGNS = { populated: "good", empty: "warn", missing: "unknown", unavailable: "bad", initializing: "idle" };

const known = (state) => Object.hasOwn(SIGNS, state);

// The sign of a state. What has no ready endpoint has a shape of its own for each reason.
export const stateSign = (state) => (known(state) ? SIGNS[state] : "idle");

const titled = (state) => `Release ${known(state) ? state : "changed"}`;

const OUTCOMES = {
  answered: ["Agent answered", "good"],
  AGENT_UNAVAILABLE: ["Agent unavailable", "warn"],
  AGENT_TRANSPORT_FAILED: ["Agent did not answer", "bad"],
  too_many_observations: ["Release refused", "warn"],
  abandoned: ["Invocation abandoned", "warn"],
};
const outcomeOf = (outcome) => (Object.hasOwn(OUTCOMES, outcome) ? OUTCOMES[outcome] : ["Router failed", "bad"]);

// An agent that answers 503 has answered, and the router did its part: it is a warning all the same.
const outcomeSign = ({ outcome, status }) => (status >= 500 ? "warn" : outcomeOf(outcome)[1]);

export const TOPOLOGY_TYPES = {
  "idkmesh.topology.opened": ["Release observed", "info", (_, subject) => `${subject}: used for the first time`],
  "idkmesh.topology.changed": [
    ({ to }) => titled(to),
    ({ to }) => stateSign(to),
    ({ from, to, localRevision: revision, cause }, subject) =>
      `${subject}: ${to}, was ${from}; local revision ${revision}${cause ? `; ${cause}` : ""}`,
  ],
  "idkmesh.topology.renewed": [
    ({ to }) => `${titled(to)} again`,
    ({ to }) => stateSign(to),
    ({ from, to, localRevision: revision, attempts }, subject) =>
      `${subject}: ${to}, was ${from}; a new session, attempt ${attempts}, local revision ${revision}`,
  ],
  "idkmesh.topology.closed": [
    "Release no longer observed",
    "info",
    ({ to }, subject) => `${subject}: was not used for an hour; was ${to}`,
  ],
  "idkmesh.topology.refused": [
    "Releases refused",
    "warn",
    ({ max_observations: most }) => `${most} are observed, which is max_observations; others are refused`,
  ],
  "idkmesh.topology.omitted": [
    "Changes of releases not told",
    "warn",
    ({ omitted, seconds }) => `${omitted} more in ${seconds} s`,
  ],
  "idkmesh.topology.provider_lost": [
    "Provider lost",
    "bad",
    ({ cause }, subject) => `${subject}: ${cause}; its releases are unavailable, and the router is not ready`,
  ],
  "idkmesh.topology.provider_back": ["Provider back", "good", (_, subject) => `${subject}: can be used again`],
  "idkmesh.agent.invoked": [
    ({ outcome }) => outcomeOf(outcome)[0],
    outcomeSign,
    ({ credential, outcome, state, localRevision: revision, status, seconds, reason }, subject) =>
      [
        `${subject}: ${outcome}${reason ? ` (${reason})` : ""}`,
        status === null ? "" : `status ${status}`,
        state === null ? "" : `${state}${revision === null ? "" : ` at revision ${revision}`}`,
        `${seconds} s, for ${credential}`,
      ]
        .filter(Boolean)
        .join("; "),
  ],
};

const ID = "[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?";
const VERSION = "[A-Za-z0-9](?:[A-Za-z0-9.+_-]{0,62}[A-Za-z0-9])?";
const TARGET = new RegExp(`^${ID}/${VERSION}/${ID}$`);

// Whether a name is that of a release, AGENT/VERSION/RELEASE (RT-1.1).
export const isTarget = (name) => typeof name === "string" && name.length <= 256 && TARGET.test(name);
