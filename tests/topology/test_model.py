"""Names, endpoints, snapshots: what is taken, and that nothing else is."""

from __future__ import annotations

import json
import re

import pytest

from idkmesh.topology.model import (
    ID_PATTERN,
    MAX_ENDPOINTS,
    NOT_DECLARED,
    VERSION_PATTERN,
    Cause,
    Endpoint,
    Failed,
    Selection,
    Target,
    endpoint_of,
    snapshot_of,
    target_of,
)
from tests.topology.support import ECHO, at


@pytest.mark.parametrize(
    "names",
    [("echo", "1.0.0", "r1"), ("A", "1", "z"), ("a" * 128, "1.0.0-rc.1+b_7", "2026.01.02-a_b"), ("a.b", "v" * 64, "9")],
)
def test_targets(names: tuple[str, str, str]) -> None:
    """RT-1.1: what is well formed is a target, and comes back from its text as it was."""
    target = Target(*names)
    assert target_of(str(target)) == target
    assert str(target) == "/".join(names)


@pytest.mark.parametrize("wrong", ["", "a" * 129, ".a", "a.", "a/b", "a:b", "a b", "é", "a\n", "a\0", "-", "a%41"])
def test_no_targets(wrong: str) -> None:
    """RT-1.1: anything else is refused by the name of its member, and what was written is not repeated."""
    for member, names in (
        ("agentId", (wrong, "1", "r")),
        ("agentCardVersion", ("a", wrong, "r")),
        ("releaseId", ("a", "1", wrong)),
    ):
        with pytest.raises(ValueError, match=f"^{member}: ") as told:
            Target(*names)
        assert len(wrong) < 12 or wrong not in str(told.value)


def test_a_target_of_256_characters() -> None:
    """RT-1.1: so many at most together, with what stands between them."""
    longest = Target("a" * 128, "1" * 60, "r" * 66)
    assert len(str(longest)) == 256
    with pytest.raises(ValueError, match="at most 256 characters together"):
        Target("a" * 128, "1" * 60, "r" * 67)


def test_targets_differ_by_a_letters_case() -> None:
    """RT-1.1: nothing is folded, and a text with more or fewer parts is no target."""
    assert Target("Echo", "1.0.0", "r1") != ECHO
    for text in ("echo/1.0.0", "echo/1.0.0/r1/x", "echo"):
        with pytest.raises(ValueError, match="AGENT/VERSION/RELEASE"):
            target_of(text)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:9001", "http://127.0.0.1:9001"),
        ("HTTPS://Agent-1.Example:443/", "https://agent-1.example:443"),
        ("http://[::1]:65535", "http://[::1]:65535"),
        ("http://a_b:1", "http://a_b:1"),
    ],
)
def test_endpoints(text: str, url: str) -> None:
    """RT-1.2: scheme, host, port, and no difference by letters' case or a lone slash."""
    assert endpoint_of(text).url == url


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "http://",
            "http://a",
            "http://a:",
            "http://:1",
            "a:1",
            "//a:1",
            "ftp://a:1",
            "http://a:1/x",
            "http://a:1?",
        ),
        *(
            "http://a:1#",
            "http://u@a:1",
            "http://u:p@a:1",
            "http://a:0",
            "http://a:65536",
            "http://a:080",
            "http://a:+1",
        ),
        *(
            "http://a:1\n",
            " http://a:1",
            "http://a\t:1",
            "http://é:1",
            "http://1.2.3:4",
            "http://a..b:1",
            "http://-a:1",
        ),
        *(
            "http://[::1%25lo]:1",
            "http://[::1:1",
            "http://::1:1",
            "http://a:1/../",
            "http://a b:1",
            f"http://{'a' * 260}:1",
        ),
        *(None, 80, ["http://a:1"], {"endpoint": "http://a:1"}),
    ],
)
def test_no_endpoints(text: object) -> None:
    """RT-1.2: everything else is refused, and what was written is not repeated: it may be a secret."""
    with pytest.raises(ValueError, match=r"^an endpoint must be http://HOST:PORT or https://HOST:PORT$"):
        endpoint_of(text)


def test_an_endpoint_is_not_printed() -> None:
    """RT-11.5: a fault or a log that prints a value of ours does not tell where an instance is."""
    endpoint = endpoint_of("http://secret-host:9001")
    for value in (endpoint, snapshot_of([endpoint]), Selection(ECHO, endpoint, 1), [endpoint]):
        assert "secret-host" not in f"{value} {value!r}"


def test_a_snapshot_has_no_order_and_no_doubles() -> None:
    """RT-1.3: the set of endpoints is all; what is not declared has none."""
    one, two = endpoint_of("http://a:1"), endpoint_of("http://b:1")
    assert snapshot_of([two, one, two]) == snapshot_of([one, two])
    assert snapshot_of([one], declared=False, unreadable=3) == NOT_DECLARED
    assert MAX_ENDPOINTS == 1000


def test_a_failure_is_one_word() -> None:
    """RT-1.5, RT-5.4: of what went wrong there is a word of a closed list, and no place for another one."""
    assert {cause.value for cause in Cause} == {
        *("unreachable", "silent", "refused", "unreadable", "malformed", "lost", "closed", "fault"),
    }
    assert Failed.__slots__ == ("cause",)
    assert isinstance(at(1).endpoints[0], Endpoint)


def test_the_schema_has_the_same_patterns() -> None:
    """RT-11.1: what is a target here is one for a reader of the schema."""
    from idkmesh.control_tower.assets import schema  # noqa: PLC0415  the schema is the package's, not the topology's

    members = schema("router-topology-status.v1.json")["properties"]["observations"]["items"]["properties"]
    assert members["agentId"]["pattern"] == members["releaseId"]["pattern"] == f"^(?:{ID_PATTERN})$"
    assert members["agentCardVersion"]["pattern"] == f"^(?:{VERSION_PATTERN})$"
    assert re.fullmatch(ID_PATTERN, json.loads('"echo"'))
