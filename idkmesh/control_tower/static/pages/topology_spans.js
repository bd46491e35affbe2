// What the states of a release were, as far as events vouch for it. Pure.
//
// Laws: a state is drawn from one event to the next only where both say the same of it, and nothing between them may
// have been left out; all else is "unknown". The newest evidence is what the router tells now. Instants are those of
// the service's wall clock, in ms; they are labels, and never run backwards here.

const MADE = {
  "idkmesh.topology.opened": () => ["none", "initializing"],
  "idkmesh.topology.changed": ({ from, to }) => [from, to],
  "idkmesh.topology.renewed": ({ from, to }) => [from, to],
  "idkmesh.topology.closed": ({ to }) => [to, "none"],
};

export const OMITTED = "idkmesh.topology.omitted";
export const TYPES = [...Object.keys(MADE), OMITTED];

// {at, before, after, event} of an event of one release; null of any other.
export function evidenceOf(event) {
  const made = Object.hasOwn(MADE, event.type) && typeof event.subject === "string" ? MADE[event.type] : null;
  if (!made) {
    return null;
  }
  const [before, after] = made(event.data ?? {});
  return { at: new Date(event.time).getTime() || 0, before, after, event };
}

// Whether it is a transition: another state of a release that was and is observed.
export const isTransition = ({ before, after }) => before !== "none" && after !== "none";

// Spans [{from, to, state}] from `since` to `until`, oldest first. `evidence` is of one release, oldest first; `holes`
// [{from, to}] are times of which not everything is told, `first` is the state at `since` where it is known, else null;
// `now` is {state, observedAt} of the projection.
export function spansOf(evidence, { since, until, first, holes, now }) {
  const spans = [];
  let at = since;
  let state = first;
  for (const one of [...evidence, ...present(evidence.at(-1) ?? { at: since, after: first }, until, now)]) {
    const to = Math.min(Math.max(one.at, at), until);
    spans.push(...between(at, state, to, one.before, holes));
    [at, state] = [to, one.after];
  }
  return joined(spans);
}

// What the projection adds to the last event. An event may have come by the stream before the next answer has: then it
// is the newer one.
function present({ at, after }, until, { state, observedAt }) {
  if (after === null || after === state) {
    return [{ at: until, before: state }];
  }
  if (observedAt <= at) {
    return [{ at: until, before: after }];
  }
  return [
    { at: observedAt, before: "unknown", after: state },
    { at: until, before: state },
  ];
}

function between(from, before, to, after, holes) {
  const inside = holes.filter((hole) => hole.to > from && hole.from < to);
  if (inside.length > 0) {
    const begin = Math.max(Math.min(...inside.map((hole) => hole.from)), from);
    const end = Math.min(Math.max(...inside.map((hole) => hole.to)), to);
    const told = { from, to: begin, state: before ?? "unknown" };
    return [told, { from: begin, to: end, state: "unknown" }, { from: end, to, state: after }];
  }
  return [{ from, to, state: before === null || before === after ? after : "unknown" }];
}

function joined(spans) {
  const found = [];
  for (const { from, to, state } of spans) {
    const last = found.at(-1);
    if (last?.state === state) {
      last.to = to;
    } else if (to > from) {
      found.push({ from, to, state });
    }
  }
  return found;
}
