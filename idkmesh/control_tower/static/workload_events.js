// Words for the events of instances, checks, leases and declarations (AR-7.3): rows as in words.js. Pure.

const secondsOf = ({ unhealthy_seconds: by }) => `unhealthy for ${Math.round(by)} s`;

export const WORKLOAD_TYPES = {
  "idkmesh.instance.healthy": [
    ({ from }) => (from === "unhealthy" ? "Instance healthy again" : "Instance healthy"),
    "good",
    ({ from, detail }, subject) => `${subject}: was ${from}; ${detail}`,
  ],
  "idkmesh.instance.unhealthy": [
    "Instance unhealthy",
    "bad",
    ({ from, detail }, subject) => `${subject}: was ${from}; ${detail}`,
  ],
  "idkmesh.instance.restart_requested": [
    "Restart due",
    "warn",
    (data, subject) => `${subject} is to be restarted: ${data.detail}, ${secondsOf(data)}`,
  ],
  "idkmesh.instance.restarted": [
    "Instance restarted",
    "info",
    (data, subject) => `${subject}: ${data.detail}, ${secondsOf(data)}`,
  ],
  "idkmesh.instance.restart_failed": [
    "Restart failed",
    "bad",
    (data, subject) => `${subject} was not restarted: ${data.outcome}; ${data.detail}, ${secondsOf(data)}`,
  ],
  "idkmesh.check.could_not_run": [
    ({ driver }) => (driver ? "Platform tells nothing" : "Check says nothing"),
    "unknown",
    ({ driver, check, reason }, subject) =>
      `${driver ? `platform ${driver}` : `${check} of ${subject}`}: ${reason}; told once until it can`,
  ],
  "idkmesh.check.misdeclared": [
    "Command misdeclared",
    "warn",
    ({ check, reason }, subject) => `${check} of ${subject} says nothing: ${reason}`,
  ],
  "idkmesh.lease.acquired": [
    "Lease acquired",
    "good",
    ({ holder, ttl_s: ttl }) => `${holder} asks and restarts from now on; a lease lasts ${ttl} s unless renewed`,
  ],
  "idkmesh.lease.lost": [
    ({ reason }) => (reason === "given back" ? "Lease given back" : "Lease lost"),
    ({ reason }) => (reason === "given back" ? "info" : "warn"),
    ({ holder, reason }) => `${holder} acts no more: ${reason}`,
  ],
  "idkmesh.modules.reloaded": [
    "Declaration read again",
    "info",
    ({ modules, kept, changed, added, removed }) =>
      `${modules} modules: ${kept} kept, ${changed} changed, ${added} added, ${removed} removed`,
  ],
  "idkmesh.modules.refused": [
    "Declaration refused",
    "bad",
    ({ findings, line, column, what }) =>
      `the running one stays. ${line ? `Line ${line}, column ${column}: ` : ""}${what}` +
      `${findings > 1 ? `; ${findings} findings in all` : ""}`,
  ],
};

const NAME = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

// Whether a name is that of a module (AR-2.2).
export const isModule = (name) => typeof name === "string" && NAME.test(name);

// The modules that an event is about, as far as their names are such.
export function modulesOf({ type, data }) {
  const own = typeof type === "string" && /^idkmesh\.(instance|check)\./.test(type);
  return own && isModule(data?.module) ? [data.module] : [];
}
