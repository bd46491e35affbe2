"""``docs/RELIABILITY.md``, from what the parts have found. Pure: states in, a text out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scripts.bench.benchlib.tables import table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scripts.lib.soak.state import State

HEAD: Final = """\
# Reliability

Written by `scripts/soak --page` from its own results; run it again to change a figure. It works on loopback only, goes
on where it was interrupted, and shows what came out otherwise than expected, with its bytes.

```sh
scripts/soak --page                            # everything, in full: hours
scripts/soak --only connections --count 20000  # a part, in small
```
"""

ABOUT: Final = {
    "connections": """\
Connections of about fifty kinds, each in a share of its own, against one control tower with a matrix, a module of the
process driver, a router with releases from a file, a client file and a store: good requests (to the router and its
agent too), refused and malformed ones, slow heads and bodies, connections that are reset in each phase, and streams
of events. Each has one outcome that is right: a status with its whole content, or a close without a byte. Up to 412
are open at once, of them as many streams as the tower has places for. The baseline is taken at rest after a warm-up:
invocations until the bounded caches are full (the latest events that streams are written from, and the pages of the
event store: [limits](explanation/limits.md)), then connections of the same kinds. The environment is that of
`examples/idkmesh.service` (`MALLOC_ARENA_MAX=2`). That is compared with the tower at rest after the load: descriptors
may not be more but for those of four readers of the store that are kept (9), and memory not more than 16 MiB above
it. Workers are started when they are needed and stay: threads may be those before the first connection and a worker
for each place of tower and router, 256. With each worker comes what the C library keeps for a thread, of which the 16
MiB are the bound here. The process of the tower is measured, and not what it has started. Responses that a client
never reads are not among the kinds: `scripts/bench/hostile` has those.""",
    "sigterm": """\
A full tower under load (pages of status and events, bodies that follow `100 Continue` up to 0.4 s later, invocations
through the router, a stream), SIGTERM at a random moment, with a drain of at most 10 s. Each request whose head was
sent before the signal must be answered whole: 200, or 503 `shutting_down` where its answer came after the signal. One
that was told `100 Continue` must get its 200. Who comes later may be refused, or cut off before the first byte. The
exit code is 0, no traceback is written, and the port's and the client's files and all processes are gone. Four towers
run side by side.""",
    "kill": """\
A process writes numbered events through the recorder and tells each that the recorder has published. It is killed by
SIGKILL at a random moment, each fifth while it starts and opens the store. Then the store is opened: every event that
was told is there, sequences and numbers follow each other without a gap or a double, and `integrity_check` is ok
after every kill. The killing of a process is not a cut of power: what the system has taken it keeps.""",
    "retention": """\
Events at 100 a second of the recorder's clock through a real recorder, its thread, its store and the disk. What
stands in is that clock: it moves 10 ms an event, however fast they are written, so that the pruning once a minute
comes every 6,000 events. In the first half retention is by number, in the second by age, which keeps fewer and is held
against its setting once its first pruning is done. What is kept may exceed the setting by what comes until the next
pruning. There is no setting in bytes: the file is held against 600 bytes for each event allowed. The feed of commits
must have no gap; a reader beside it, which now and then sleeps until retention has overtaken it, may have those that
the store announces. It reads the store as a stream does, but through no HTTP.""",
}


def written(states: Sequence[State], full: Mapping[str, int]) -> str:
    """Return the page."""
    parts = [HEAD, "## In short\n", _short(states, full)]
    for state in states:
        parts += [f"\n## {state.part.capitalize()}\n", ABOUT[state.part], "", _figures(state)]
        if state.wrong_total:
            shown = "\n".join(text.replace("```", "'''") for text in state.wrong)
            parts += [f"\n{state.wrong_total} outcomes were wrong. The first of them:\n", f"```text\n{shown}\n```"]
    parts += ["\n## What was not run in full\n", _missing(states, full)]
    if states:
        rows = [(name, str(value)) for name, value in states[0].machine.items() if not name.endswith("_core")]
        parts += ["\n## Machine\n", table(("machine", ""), rows)]
    return "\n".join(parts) + "\n"


def _short(states: Sequence[State], full: Mapping[str, int]) -> str:
    rows = [(state.part, state.done, full[state.part], state.wrong_total, round(state.seconds)) for state in states]
    return table(("part", "done", "in full", "wrong", "seconds"), rows)


def _figures(state: State) -> str:
    rows: list[tuple[str, float | int]] = [(state.part, state.done), *sorted(state.sums.items())]
    rows += [(name, int(value) if value == int(value) else value) for name, value in sorted(state.highs.items())]
    return table(("figure", ""), [*rows, ("sittings", state.sittings)])


def _missing(states: Sequence[State], full: Mapping[str, int]) -> str:
    done = {state.part: state.done for state in states}
    rows = [
        f"- {name}: {done.get(name, 0):,} of {goal:,} ({done.get(name, 0) / goal:.1%})."
        for name, goal in full.items()
        if done.get(name, 0) < goal
    ]
    if not rows:
        return "Everything was."
    return "\n".join([*rows, "", "These figures show that the parts work. They are no claim for the full number."])
