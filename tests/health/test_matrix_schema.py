"""The published schema of the probe matrix and its loader say the same, for everything that a schema can say."""

from __future__ import annotations

import copy
import functools
import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import yaml
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from idkmesh.health.matrix_file import load_matrix
from idkmesh.health.matrix_rules import SECRET_FIELDS, SHELLS
from idkmesh.validation.findings import MatrixError, Rule
from scripts.lib import matrix_schema
from tests.health.matrices import EXAMPLE

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA: dict[str, Any] = json.loads(matrix_schema.FILE.read_text(encoding="utf-8"))

BEYOND = {
    Rule.DUPLICATE_NAME,
    Rule.DUPLICATE_KEY,  # of header fields, whose capitals make no difference
    Rule.ADDRESS,
    Rule.TIMEOUT_READINESS,
    Rule.TIMEOUT_INTERVAL,
    Rule.TIMEOUT_PERIOD,
    Rule.CACHE,
    Rule.CRITICAL_THRESHOLD,
}
"""What no schema says. Each has a test of its own."""


def ecma_pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    """Judge as ECMA 262 does, where ``$`` is the end; in Python it is also before a last line feed."""
    if isinstance(instance, str) and not re.search(pattern.removesuffix("$") + r"\Z", instance):
        yield jsonschema.ValidationError("does not match")


VALIDATOR = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": ecma_pattern})(SCHEMA)


class Dumper(yaml.SafeDumper):
    """Writes each text in quotes, so that it is read as text, and no alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


Dumper.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


def yaml_text(document: Any) -> str:
    return yaml.dump(document, Dumper=Dumper, width=float("inf"))


# --- documents that are right, and what people make of them ----------------------------------------------------------

names = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,8}[a-z0-9])?", fullmatch=True)
hosts = st.sampled_from(["db", "127.0.0.1", "::1", "db.example", "1::2::3", "fe80::1%eth0"])
probes = st.one_of(
    st.fixed_dictionaries({"tcp": st.fixed_dictionaries({"host": hosts, "port": st.integers(1, 65535)})}),
    st.fixed_dictionaries(
        {
            "http": st.fixed_dictionaries(
                {"url": st.sampled_from(["http://db", "https://db:8443/a?b", "http://[::1]:1/", "http://[::::]"])},
                optional={
                    "method": st.sampled_from(["GET", "HEAD"]),
                    "unix_socket": st.just("/run/a"),
                    "expect": st.lists(st.integers(200, 599), min_size=1, max_size=3),
                    "headers": st.dictionaries(st.sampled_from(["A", "a", "X-B"]), st.just("c d"), max_size=2),
                    "headers_from_env": st.dictionaries(st.sampled_from(["Authorization", "a"]), st.just("TOKEN")),
                },
            )
        }
    ),
    st.fixed_dictionaries(
        {
            "command": st.fixed_dictionaries(
                {"argv": st.lists(st.sampled_from(["ping", "sh", "-c"]), min_size=1, max_size=3)}
            )
        }
    ),
    st.just({"dns": {"name": "db.example"}}),
    st.fixed_dictionaries(
        {"file": st.fixed_dictionaries({"path": st.just("/a")}, optional={"max_age_ms": st.integers(1, 10**6)})}
    ),
    st.fixed_dictionaries(
        {
            "disk": st.fixed_dictionaries(
                {"path": st.just("/")},
                optional={"min_free_percent": st.floats(0.01, 100), "min_free_bytes": st.integers(1, 10**9)},
            )
        }
    ),
    st.fixed_dictionaries(
        {
            "grpc": st.fixed_dictionaries(
                {"target": st.sampled_from(["db:1", "[::1]:50051"])},
                optional={"service": st.sampled_from(["", "a.B"]), "tls": st.booleans()},
            )
        }
    ),
    st.just({"python": {"target": "a.b:c.d"}}),
)
dependencies = st.fixed_dictionaries(
    {
        "name": names,
        "critical": st.booleans(),
        "probe": probes,
        "timeout_ms": st.sampled_from([1, 500, 999, 1000, 60000]),
        "interval_ms": st.sampled_from([100, 2000, 86_400_000]),
        "cache_ms": st.sampled_from([1, 5000, 604_800_000]),
    },
    optional={
        "failure_threshold": st.sampled_from([1, 2, 100]),
        "success_threshold": st.integers(1, 100),
        "refresh": st.sampled_from(["schedule", "request"]),
    },
)
figures = st.fixed_dictionaries(
    {
        "period_ms": st.sampled_from([100, 1000, 86_400_000]),
        "timeout_ms": st.sampled_from([1, 1000, 86_400_000]),
        "failure_threshold": st.integers(1, 100_000),
    }
)
documents = st.fixed_dictionaries(
    {
        "schema_version": st.just("0.1"),
        "kind": st.just("idkmesh-probe-matrix"),
        "orchestrator": st.fixed_dictionaries({"startup": figures, "liveness": figures, "readiness": figures}),
        "watchdog": st.fixed_dictionaries(
            {"interval_ms": st.integers(10, 3_600_000), "max_missed_ticks": st.integers(1, 1000)}
        ),
        "dependencies": st.lists(dependencies, max_size=3),
    }
)
texts = st.one_of(
    st.sampled_from(
        [
            *(
                "",
                "a",
                "A",
                "db\n",
                "-a",
                "a" * 63,
                "a" * 64,
                "é",
                "\0",
                "a\0",
                " ",
                "0.1",
                "1",
                "true",
                "😀",
                "http://a",
            ),
            *(
                "http://a:0",
                "http://a:65535/",
                "http://a:65536/",
                "http://u:p@a",
                "http://a/@",
                "http://a?@",
                "http:///a",
            ),
            *(
                "http://a/#b",
                'http://a/"',
                "http://a/\n",
                "HTTPS://A",
                "a:1",
                "[::1]:1",
                "a:b",
                "a.b:c\n",
                "a.:c",
                "a:1:2",
            ),
            *(
                "/bin/Sh",
                "sh\n",
                "bash.EXE",
                "a\n/sh",
                "sh/",
                "GET",
                "Authorization",
                "authorization\n",
                "X-Api-Key",
                "a b",
            ),
            *(
                "::",
                "1:2",
                "fe80::1%",
                "%eth0",
                "request",
                "TOKEN",
                "a-b",
                "~",
                "a\x7f",
                "\x85",
                "\u2028",
                "\ufeff",
                "\U0010ffff",
            ),
            *SHELLS,
            *SECRET_FIELDS,
        ]
    ),
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.integers(250, 40_000).map(lambda length: "a" * length),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [0, 1, -1, 99, 100, 101, 199, 599, 600, 65535, 65536, 60_001, 86_400_001, 2**50, 2**50 + 1, 10**40]
    ),
    st.integers(),
    st.sampled_from([0.0, 1.0, 500.0, 0.5, 0.009, 0.01, 100.5, 1e300, -1.5, 86_400_000.0]),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)
values = st.one_of(
    scalars,
    st.lists(scalars, max_size=3),
    st.dictionaries(texts, scalars, max_size=2),
    st.integers(60, 70).map(lambda size: ["a"] * size),
    st.integers(60, 70).map(lambda size: {f"a{number}": "b" for number in range(size)}),
    probes.map(copy.deepcopy),  # what is drawn is changed in its place
)


def containers(document: Any) -> Iterator[Any]:
    """Yield each mapping and list within a document, itself included."""
    if isinstance(document, dict | list):
        yield document
        for part in document.values() if isinstance(document, dict) else document:
            yield from containers(part)


@st.composite
def changed(draw: st.DrawFn) -> Any:
    """Draw a document that is right but for at most two changes."""
    document = copy.deepcopy(draw(documents))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.sampled_from(list(containers(document))))
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        change = draw(st.sampled_from(["replace", "replace", "delete", "add"]))
        if change == "add" and isinstance(place, list):
            place.append(draw(values))
        elif change == "add":
            place[draw(texts | st.sampled_from(["refresh", "headers", "tls", "service", "max_age_ms"]))] = draw(values)
        elif keys:
            key = draw(st.sampled_from(keys))
            if change == "delete":
                del place[key]
            else:
                place[key] = draw(values)
    return document


def rules(document: Any) -> set[Rule]:
    """Return the rules that a document breaks, by the loader."""
    try:
        load_matrix(yaml_text(document), "m.yaml")
    except MatrixError as error:
        return {finding.rule for finding in error.findings}
    return set()


def check(document: Any) -> bool:
    """Hold the loader against the schema, and return what the schema says."""
    broken = rules(document)
    if VALIDATOR.is_valid(document):
        assert broken <= BEYOND
        return True
    assert broken - BEYOND
    return False


@settings(max_examples=400)
@given(changed())
@example([])
@example(None)
@example("")
@example(5)
def test_the_loader_and_the_schema_agree(document: Any) -> None:
    """HL-3.1, HL-3.2: what the schema refuses the loader refuses, and what it accepts breaks a relation at most."""
    event("accepted" if check(document) else "refused")


@settings(max_examples=400)
@given(st.data())
def test_they_agree_on_every_member(data: st.DataObject) -> None:
    """HL-3.2: each leaf of a matrix with every kind of probe, replaced by anything, alone."""
    document = json.loads(json.dumps(whole()))
    place = data.draw(st.sampled_from(list(containers(document))))
    if not place:
        return
    key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place)))))
    place[key] = data.draw(values)
    event("accepted" if check(document) else "refused")


@functools.cache
def whole() -> dict[str, Any]:
    """Return a document with every member that there is."""
    document: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    url = {"url": "https://db:8443/a", "method": "GET", "unix_socket": "/a", "expect": [200]}
    kinds: dict[str, Any] = {
        "tcp": {"host": "db", "port": 1},
        "http": url | {"headers": {"A": "b"}, "headers_from_env": {"C": "D"}},
        "command": {"argv": ["ping", "db"]},
        "dns": {"name": "db"},
        "file": {"path": "/a", "max_age_ms": 5},
        "disk": {"path": "/", "min_free_percent": 5, "min_free_bytes": 5},
        "grpc": {"target": "db:1", "service": "a", "tls": True},
        "python": {"target": "a:b"},
    }
    row = document["dependencies"][1] | {"failure_threshold": 2, "success_threshold": 2, "refresh": "schedule"}
    document["dependencies"] = [row | {"name": kind, "probe": {kind: spec}} for kind, spec in kinds.items()]
    return document


def test_a_document_with_every_member_is_accepted() -> None:
    """HL-3.1: by both; so each refusal in the test above is of the one change."""
    assert check(whole())
    assert rules(whole()) == set()
    used = {key for place in containers(whole()) if isinstance(place, dict) for key in place}
    known = {key for place in containers(SCHEMA) if "properties" in place for key in place["properties"]}
    assert known <= used


def test_the_schema_is_made_of_the_table() -> None:
    """HL-3.1: the ranges stand once; the published file says the same."""
    assert matrix_schema.FILE.read_text(encoding="utf-8") == matrix_schema.text(), "run scripts/reference"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert VALIDATOR.is_valid(yaml.safe_load(EXAMPLE.read_text(encoding="utf-8")))


def members(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield each member that a schema names, with its own schema."""
    for place in containers(schema):
        if isinstance(place, dict) and place.get("type") == "object":
            yield from place.get("properties", {}).items()


def test_every_member_is_described() -> None:
    """HL-3.1: whoever reads the schema, or writes in an editor that does, is told what each member is."""
    assert len(list(members(SCHEMA))) > 50
    for name, schema in members(SCHEMA):
        assert re.fullmatch(r"[A-Z0-9sH].{5,}\.", schema["description"]), name


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_patterns_mean_the_same_to_ecma_262() -> None:
    """HL-3.1: JSON Schema's patterns are those of ECMA 262, with Unicode on; they match as in the loader's language."""
    patterns = sorted(
        {place["pattern"] for place in containers(SCHEMA) if isinstance(place, dict) and "pattern" in place}
    )
    tried = [
        "",
        "a",
        "A-1",
        "a:1",
        "::1",
        "http://a:80/b",
        "http://u@a",
        "sh",
        "/bin/SH.exe",
        "a\n",
        "\0",
        "é",
        "a.b:c",
    ]
    program = """
        const [patterns, tried] = JSON.parse(require("fs").readFileSync(0, "utf8"));
        console.log(JSON.stringify(patterns.map((one) => tried.map((text) => new RegExp(one, "u").test(text)))));
    """
    done = subprocess.run(
        ["node", "-e", program], input=json.dumps([patterns, tried]), check=True, capture_output=True, text=True
    )
    expected = [[bool(re.search(one.removesuffix("$") + r"\Z", text)) for text in tried] for one in patterns]
    assert json.loads(done.stdout) == expected
    assert len(patterns) > 10
