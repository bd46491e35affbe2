"""The published schemas, the loader and the judgement of made values say the same (AR-2.4)."""

from __future__ import annotations

import copy
import functools
import json
import re
import shutil
import subprocess
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from idkmesh.validation.findings import Rule
from idkmesh.workloads.declaration import DeclarationError, load_declaration
from idkmesh.workloads.module_rules import SHELLS
from idkmesh.workloads.validation import validate_declaration, validate_module, validate_readiness
from scripts.lib import modules_schema, schema_of
from tests.health.test_matrix_schema import containers, ecma_pattern, members, yaml_text
from tests.workloads.declarations import EXAMPLE

SCHEMAS: dict[str, Any] = {
    name: json.loads((schema_of.DIRECTORY / name).read_text(encoding="utf-8")) for name in modules_schema.FILES
}
ECMA: Any = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": ecma_pattern})
VALIDATOR = ECMA(SCHEMAS["modules.json"])
MODULE = ECMA(SCHEMAS["modules.json"]["properties"]["modules"]["items"])
READINESS = ECMA(SCHEMAS["readiness.json"])

BEYOND = {
    Rule.DUPLICATE_NAME,
    Rule.INSTANCE_TWICE,
    Rule.UNKNOWN_CLASS,
    Rule.SELECTOR_OWNER,
    Rule.PLATFORM,
    Rule.LEASE_TIME,
    Rule.SHARED_PORT,
}
"""What no schema says. Each has a test of its own."""

# --- documents that are right, and what people make of them ----------------------------------------------------------

NAMES = st.sampled_from(["web", "db", "a-1", "0", "w" * 63])
COMMANDS = st.builds(
    lambda program, arguments: [program, *arguments],
    st.sampled_from(["check", "/usr/bin/pg_isready", "./a+b", "bash", "/bin/sh", "sh.d"]),
    st.lists(st.sampled_from(["-q", "", "a b", "é😀", "x" * 200]), max_size=8),
)
READY = st.fixed_dictionaries({"command": COMMANDS}, optional={"timeoutSecs": st.sampled_from([1, 5, 15, 5.0])})
JUDGED = st.builds(
    lambda one, more: one | more,
    st.one_of(
        st.fixed_dictionaries({"port": st.integers(1, 65535)}),
        st.fixed_dictionaries({"readiness": READY}),
        st.fixed_dictionaries({"class": NAMES}),
    ),
    st.fixed_dictionaries({}, optional={"port": st.just(80), "readiness": READY, "class": st.just("redis")}),
)
INSTANCES = st.one_of(
    st.fixed_dictionaries({"instances": st.lists(st.sampled_from(["a", "B-1", "c" * 63]), min_size=1, max_size=3)}),
    st.fixed_dictionaries(
        {"selector": st.dictionaries(st.sampled_from(["user.idkmesh.module", "a"]), NAMES, min_size=1, max_size=2)}
    ),
)
PROCESSES = st.fixed_dictionaries(
    {
        "replicas": st.integers(1, 64),
        "process": st.fixed_dictionaries({"argv": COMMANDS}, optional={"cwd": st.just("/a b")}),
    }
)
MODULES = st.builds(
    lambda about, driver, judged, name, kind: {"name": name, "kind": kind, "driver": driver, **about, **judged},
    INSTANCES,
    st.just("lxd"),
    JUDGED,
    NAMES,
    st.sampled_from(["stateless", "singleton", "stateful"]),
) | st.builds(
    lambda about, judged, name: {"name": name, "kind": "stateless", "driver": "process", **about, **judged},
    PROCESSES,
    JUDGED,
    NAMES,
)
LXD = st.one_of(
    st.fixed_dictionaries({"socket": st.just("/a")}, optional={"project": st.just("default")}),
    st.fixed_dictionaries(
        {"url": st.sampled_from(["https://a", "https://[::1]:8443/"]), "cert": st.just("/c"), "key": st.just("/k")},
        optional={"server_cert": st.just("/s")},
    ),
)
LEASES = st.builds(
    lambda store, more: store | more,
    st.sampled_from([{"sqlite": {}}, {"sqlite": {"path": "/p"}}, {"etcd": {"endpoints": ["http://a:2379"]}}]),
    st.fixed_dictionaries({}, optional={"ttl_s": st.integers(5, 300), "name": NAMES}),
)
DOCUMENTS = st.fixed_dictionaries(
    {
        "schema_version": st.just("0.1"),
        "kind": st.just("idkmesh-modules"),
        "modules": st.lists(MODULES, max_size=3),
    },
    optional={
        "supervisor": st.fixed_dictionaries(
            {},
            optional={
                "interval_s": st.integers(1, 60),
                "cooldown_s": st.sampled_from([60, 86_400]),
                "lease": LEASES,
            },
        ),
        "platforms": st.fixed_dictionaries({}, optional={"lxd": LXD}),
        "classes": st.dictionaries(NAMES, READY.map(lambda ready: {"runtime": {"readiness": ready}}), max_size=2),
    },
)
TEXTS = st.one_of(
    st.sampled_from(
        [
            *("", "a", "A", "a\n", "-a", "a" * 63, "a" * 64, "a" * 200, "a" * 201, "é", "\0", "\t", " ", "0.1", "5"),
            *("true", "😀" * 200, "\x7f", "\x85", "\x9f", "\xa0", "\u2028", "\ufeff", "\U0010ffff", "/", "/a", "/a\n"),
            *("lxd", "process", "stateless", "https://a", "http://a", "https://u:p@a", "https://a/b", "a.b", "a/b"),
            *(
                "https://a:0",
                "https://[::1]",
                "//@",
                "HTTPS://a",
                "/bin/Sh",
                "sh\n",
                "sh/",
                "a\n/sh",
                "a/sh",
                "busybox",
            ),
            *SHELLS,
        ]
    ),
    st.text(st.characters(codec="utf-8"), max_size=8),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 4, 5, 15, 16, 59, 60, 61, 64, 65, 300, 301, 65535, 65536, 86_401, 10**40]),
    st.sampled_from([0.0, 1.0, 5.0, 1.5, 15.5, 1e300, -1.5, 60.0]),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(TEXTS, SCALARS, max_size=2),
    st.integers(8, 11).map(lambda size: ["a"] * size),
    st.integers(15, 18).map(lambda size: {f"a{number}": "b" for number in range(size)}),
    READY.map(copy.deepcopy),
)
KEYS = TEXTS | st.sampled_from(
    ["port", "class", "readiness", "replicas", "process", "instances", "selector", "socket", "url", "cert", "etcd"]
)


def change(document: Any, data: st.DataObject, key: Any) -> None:
    """Replace, take away or add something within a document."""
    place = data.draw(st.sampled_from(list(containers(document))))
    keys = list(place) if isinstance(place, dict) else list(range(len(place)))
    how = data.draw(st.sampled_from(["replace", "replace", "delete", "add"]))
    if how == "add" and isinstance(place, list):
        place.append(data.draw(VALUES))
    elif how == "add":
        place[data.draw(key)] = data.draw(VALUES)
    elif keys and how == "delete":
        del place[data.draw(st.sampled_from(keys))]
    elif keys:
        place[data.draw(st.sampled_from(keys))] = data.draw(VALUES)


def loaded(document: Any) -> set[tuple[Rule, str | None, str]]:
    """Return what the loader finds in a document: rule, module and field."""
    try:
        load_declaration(yaml_text(document), "m.yaml")
    except DeclarationError as error:
        return {(finding.rule, finding.module, finding.field) for finding in error.findings}
    return set()


def check(document: Any) -> bool:
    """Hold schema, loader and the judgement of values against each other, and return what the schema says."""
    found = loaded(document)
    made = validate_declaration(document)
    assert {(finding.rule, finding.module, finding.field) for finding in made} == found
    assert all(str(finding).isprintable() and not finding.file for finding in made)
    rules = {rule for rule, _, _ in found}
    if VALIDATOR.is_valid(document):
        assert rules <= BEYOND
        return True
    assert rules - BEYOND
    return False


@settings(max_examples=300)
@given(DOCUMENTS, st.data())
@example([], None)
@example(None, None)
@example("", None)
def test_loader_schema_and_judgement_agree(document: Any, data: st.DataObject | None) -> None:
    """AR-2.1, AR-2.4: what one refuses all refuse, and loader and judgement name the same module, field and rule."""
    document = copy.deepcopy(document)
    if data is not None:
        for _ in range(data.draw(st.integers(0, 2))):
            change(document, data, KEYS)
    event("accepted" if check(document) else "refused")


@functools.cache
def whole() -> dict[str, Any]:
    """Return a document with every member that there is."""
    document: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    document["supervisor"]["lease"] = {"etcd": {"endpoints": ["http://a"]}, "ttl_s": 15, "name": "a"}
    document["platforms"]["lxd"] = {"url": "https://a", "cert": "/a", "key": "/a", "server_cert": "/a", "project": "a"}
    document["modules"][3]["process"]["cwd"] = "/a"
    return document


@settings(max_examples=300)
@given(st.data())
def test_they_agree_on_every_member(data: st.DataObject) -> None:
    """AR-2.4: each part of a declaration with every member, replaced by anything, alone."""
    document = json.loads(json.dumps(whole()))
    place = data.draw(st.sampled_from([part for part in containers(document) if part]))
    place[data.draw(st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place)))))] = data.draw(
        VALUES
    )
    event("accepted" if check(document) else "refused")


def test_a_document_with_every_member_is_accepted() -> None:
    """AR-2.1: by all; so each refusal in the test above is of the one change."""
    assert check(whole())
    assert loaded(whole()) == set()
    used = {key for place in containers(whole()) if isinstance(place, dict) for key in place}
    known = {
        key
        for place in containers(SCHEMAS["modules.json"])
        if place and isinstance(place, dict) and place.get("type") == "object"
        for key in place.get("properties", ())
    }
    assert known - used == {"socket", "sqlite", "path"}, "what excludes something else"


@settings(max_examples=200)
@given(MODULES, st.data())
def test_one_module_is_judged_as_its_schema_says(row: Any, data: st.DataObject) -> None:
    """AR-2.4: a row by itself, as an API gets it."""
    row = copy.deepcopy(row)
    for _ in range(data.draw(st.integers(0, 2))):
        change(row, data, KEYS)
    rules = {finding.rule for finding in validate_module(row)}
    assert rules <= BEYOND if MODULE.is_valid(row) else rules - BEYOND


@settings(max_examples=200)
@given(READY, st.data())
def test_a_command_alone_is_judged_as_its_schema_says(ready: Any, data: st.DataObject) -> None:
    """AR-2.3, AR-2.4: what the form of the page sends."""
    ready = copy.deepcopy(ready)
    for _ in range(data.draw(st.integers(0, 2))):
        change(ready, data, TEXTS)
    assert READINESS.is_valid(ready) is not bool(validate_readiness(ready))


@pytest.mark.parametrize("name", modules_schema.FILES)
def test_schemas_are_made_of_the_table(name: str) -> None:
    """AR-2.1, AR-2.4: the ranges stand once; the published files say the same, and tell what each member is."""
    assert (schema_of.DIRECTORY / name).read_text(encoding="utf-8") == modules_schema.text(name), (
        "run scripts/reference"
    )
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    described = list(members(SCHEMAS[name]))
    assert len(described) >= 2
    for member, schema in described:
        assert re.fullmatch(r"[A-Zel].{5,}\.", schema["description"]), member


def test_the_example_is_valid() -> None:
    """AR-2.1: the file that is shown to users, by the schema."""
    assert VALIDATOR.is_valid(yaml.safe_load(EXAMPLE.read_text(encoding="utf-8")))


TRIED = [
    *("", "a", "A-1", "/usr/bin/g++", "a b", "sh", "/bin/sh", "sh/", "x/bash", "busybox.d", "a\n", "\0", "\t", "\x9f"),
    *("é", "😀", "\u2028", "https://a:80", "https://u@a", "/a/b", "-", "a.b"),
]


def patterns(name: str) -> list[str]:
    """Return the patterns of a schema."""
    return sorted(
        {part["pattern"] for part in containers(SCHEMAS[name]) if isinstance(part, dict) and "pattern" in part}
    )


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize(("name", "flags"), [("modules.json", "u"), ("readiness.json", "u"), ("readiness.json", "v")])
def test_patterns_mean_the_same_to_ecma_262(name: str, flags: str) -> None:
    """AR-2.4: with Unicode on, and those of the form also as HTML's ``pattern`` reads them, as sets."""
    program = """
        const [patterns, tried, flags] = JSON.parse(require("fs").readFileSync(0, "utf8"));
        console.log(JSON.stringify(patterns.map((one) => tried.map((text) => new RegExp(one, flags).test(text)))));
    """
    told = json.dumps([patterns(name), TRIED, flags])
    done = subprocess.run(["node", "-e", program], input=told, check=True, capture_output=True, text=True)
    expected = [[bool(re.search(one.removesuffix("$") + r"\Z", text)) for text in TRIED] for one in patterns(name)]
    assert json.loads(done.stdout) == expected
    assert len(expected) >= 3
