"""``idkmesh node get``: what a node says of itself, and what that comes to (RA-6)."""

from __future__ import annotations

from idkmesh import console
from idkmesh.adapter import node_get
from idkmesh.adapter.observation import Observation, ObservationError, parse_observation
from idkmesh.adapter.verdict import Held, after, verdict
from idkmesh.adapter.words import answer_line
from idkmesh.console import CommandError


def get(client_file: str, *, as_json: bool) -> int:
    """Ask the node once, print what it says, and return the exit code (RA-6.1, RA-6.2)."""
    try:
        data = node_get.ask(node_get.read_client_file(client_file))
        lines = [data.decode("utf-8")] if as_json else _lines(data)
    except node_get.NodeGetError as error:
        if as_json:
            console.say(node_get.failure_text(str(error)))
        raise CommandError(str(error), error.code) from None
    for line in lines:
        console.say(line)
    return 0


def _lines(data: bytes) -> list[str]:
    try:
        seen = parse_observation(data)
    except ObservationError as error:
        raise node_get.NodeGetError(f"could not tell: {error}", node_get.EXIT_UNKNOWN) from None
    if not isinstance(seen, Observation):
        raise node_get.NodeGetError(f"could not tell: {seen.reason}", node_get.EXIT_UNKNOWN)
    told = verdict(after(Held(), seen, seen.node.id, 0.0), seen.node.id, 0.0)
    return [
        f"node {seen.node.id}",
        f"boot {seen.node.boot_id}",
        answer_line("live", told.not_live),
        answer_line("ready", told.not_ready),
    ]
