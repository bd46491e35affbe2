// What a person reads of the router beside the tower, and of its provider: how it is, what to do. Pure.
//
// `router` is that of the status document: null where there is none.

import { count, shortened, visible } from "../format.js";
import { picked } from "../words.js";

// Cause of a failure (RT-5.4): [what it means, what to do where it is the provider's].
const CAUSES = {
  unreachable: [
    "the provider could not be reached",
    "See that it runs, and that the router's configuration names its address.",
  ],
  silent: ["the provider said nothing in time", "See that it runs and is not overloaded, or what holds it up."],
  refused: [
    "the provider took no credential of the router's",
    "Mend the credential in the router's configuration, and start the tower again.",
  ],
  unreadable: ["the source could not be read", "See that it is there and may be read: the router's log says more."],
  malformed: ["what the source says is malformed", "Mend it: the router's log says more."],
  lost: ["the watch ended, and what was missed cannot be had", "Look at the provider's log, and at the router's."],
  closed: ["the provider was closed", "Start the tower again."],
  fault: ["the provider failed by an error of its own", "Look at the router's log, which names the error."],
};

const causeOf = (cause) => picked(CAUSES, cause, [visible(shortened(String(cause), 60)), "Look at the router's log."]);

export const causeWords = (cause) => (cause ? causeOf(cause)[0] : "");

const AGAIN = "It is tried again by itself, every 5 s or sooner.";

const capital = (words) => words.charAt(0).toUpperCase() + words.slice(1);

const nameOf = ({ provider }) => visible(String(provider));

// Why a router cannot use its provider: [short, what that means and what to do]; null where it can.
export function lostWords(router) {
  if (!router || router.usable) {
    return null;
  }
  const name = nameOf(router);
  const { cause } = router;
  if (!cause) {
    return [`the provider ${name} has said nothing yet`, `Wait a few seconds. ${AGAIN}`];
  }
  const [meaning, advice] = causeOf(cause);
  const short = `the provider ${name} cannot be used: ${visible(shortened(String(cause), 60))}`;
  return [short, `${capital(meaning)}. ${advice} ${AGAIN} Until then the router is not ready.`];
}

export const lostTitle = (lost) => capital(lost[0]);

// Where invocations go.
export const placeOf = (router) => (router?.listen ? visible(String(router.listen)) : "");

export function listenWords(router) {
  const place = placeOf(router);
  return place ? `Invocations go to ${place}, the router's own address.` : "";
}

// What the router has counted of its provider, where there is anything to be told (RT-10.6).
export function countedWords(router) {
  const { reconnects, unreadable, ignored } = router ?? {};
  return [
    reconnects > 0 ? `The connection to it was lost and made again ${count(reconnects, "time")}.` : "",
    unreadable > 0 ? `${count(unreadable, "record")} of instances cannot be read: the router's log says more.` : "",
    ignored > 0 ? `${count(ignored, "key")} below its prefix ${ignored === 1 ? "is" : "are"} no release and no instance.` : "",
  ].filter(Boolean).join(" ");
}

// Whether the router is ready, in a line: [sign, words]. It stops with the tower, and shares its event store (RT-9.3).
export function routerLine(router, { usage, events } = {}) {
  const place = placeOf(router);
  const where = place ? ` on ${place}` : "";
  const lost = lostWords(router);
  if (usage?.draining) {
    return ["warn", `Router${where} draining`];
  }
  if (lost) {
    return [router.cause ? "bad" : "idle", `Router${where} not ready: ${lost[0]}`];
  }
  return events?.failing
    ? ["bad", `Router${where} not ready: the event store takes no events`]
    : ["good", `Router${where} ready, provider ${nameOf(router)}`];
}

// Why nothing is observed, and how to have it.
export function absentWords(router) {
  if (!router) {
    return (
      "This tower runs no router, so there is nothing to observe. Name a router's configuration in the tower's " +
      "command line: idkmesh control-tower --router FILE. examples/router.yaml is such a file."
    );
  }
  const told = "Invocations are routed all the same: the page Events has each of them.";
  return router.provider === "direct"
    ? "Nothing is observed: with the provider direct the releases stand in the router's configuration, and there is " +
        `nothing to watch. To see states here, name etcd, nacos or file there, and start the tower again. ${told}`
    : `Nothing is observed: the router asks its provider ${nameOf(router)} at each use, because its configuration has ` +
        `observe: false. To see states here, take that line away, and start the tower again. ${told}`;
}

// Why no release is there yet, and what brings one.
export function noneWords(router) {
  const place = placeOf(router);
  const where = place ? `${place}/agent/v1/invocations` : "/agent/v1/invocations at the router's own address";
  const opens = `The first invocation of a release, POST ${where}, opens its observation; an hour without one closes it.`;
  const refused = lostWords(router) ? " While the provider cannot be used it is refused with AGENT_UNAVAILABLE." : "";
  return `No release is observed yet. ${opens}${refused}`;
}
