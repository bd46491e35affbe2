"""What a router's configuration may say, and how a person is told that it may not."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from idkmesh.router.configuration import (
    MAX_FILE_BYTES,
    ConfigurationError,
    DirectSpec,
    EtcdSpec,
    FileSpec,
    NacosSpec,
    RouterConfiguration,
    SecretReaders,
    load_configuration,
    read_configuration,
)
from idkmesh.router.token_file import TokenFileError
from idkmesh.topology.model import Target, endpoint_of, snapshot_of
from idkmesh.validation.findings import Finding, Rule
from scripts.lib import router_schema
from tests.health.matrices import marked
from tests.health.test_matrix_schema import containers, ecma_pattern, members, yaml_text

EXAMPLE = Path(__file__).parents[2] / "examples" / "router.yaml"
SCHEMA: dict[str, Any] = json.loads(router_schema.FILE.read_text(encoding="utf-8"))
ECMA: Any = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": ecma_pattern})
VALIDATOR = ECMA(SCHEMA)

HEAD = 'schema_version: "0.1"\nkind: idkmesh-router\n'
LISTEN = "listen: 127.0.0.1:8780\n"
WHO = "credentials: [{id: a, token_file: a.token}]\n"
FROM = "provider: {file: {path: releases.json}}\n"
RELEASE = "{agentId: echo, agentCardVersion: 1.0.0, releaseId: r1, endpoints: [%s]}"
DIRECT = "provider: {direct: {releases: [%s]}}\n"

BEYOND = {Rule.DUPLICATE_NAME, Rule.ADDRESS, Rule.TOKEN}
"""What no schema says. Each has a test of its own."""


def token_of(path: Path) -> str:
    """Give each file a token of its own."""
    if path.name == "bad":
        raise TokenFileError("holds no token", "write one")
    return path.name.removesuffix(".again").ljust(32, "x")


def password_of(path: Path) -> str:
    if path.name == "bad":
        raise TokenFileError("holds no UTF-8", "write UTF-8")
    return f"the password in {path}"


def loaded(text: str) -> RouterConfiguration:
    return load_configuration(text, Path("conf/router.yaml"), SecretReaders(token_of, password_of))


def refused(text: str) -> tuple[tuple[Rule, int, int], str]:
    """Return the one finding of a text, whose place is marked with ``@@``."""
    plain, line, column = marked(text)
    with pytest.raises(ConfigurationError) as told:
        loaded(plain)
    assert len(told.value.findings) == 1, told.value.lines()
    finding = told.value.findings[0]
    assert (finding.line, finding.column) == (line, column), str(finding)
    assert finding.mend
    assert str(finding).startswith(f"conf/router.yaml:{line}:{column}: ")
    return (finding.rule, line, column), str(finding)


# --- what is right ---------------------------------------------------------------------------------------------------


def test_the_example_is_what_it_says(tmp_path: Path) -> None:
    """RT-9.1, RT-9.2: the file that is shown to users, with a token beside it, by the loader and by the schema."""
    (tmp_path / "router.yaml").write_bytes(EXAMPLE.read_bytes())
    (tmp_path / "router.token").write_text("t" * 64 + "\n")
    (tmp_path / "router.token").chmod(0o600)
    found = read_configuration(tmp_path / "router.yaml")
    assert (found.listen, found.credentials.ids) == (("127.0.0.1", 8780), ("control-plane",))
    assert (found.provider_name, found.provider) == ("file", FileSpec(tmp_path / "releases.json"))
    assert (found.observe, found.max_observations) == (True, 1024)
    assert VALIDATOR.is_valid(yaml.safe_load(EXAMPLE.read_text()))


def test_what_is_not_said_has_a_default() -> None:
    """RT-9.1: continuous observation of 1,024; relative files are beside the file."""
    found = loaded(HEAD + LISTEN + WHO + FROM)
    assert (found.observe, found.max_observations) == (True, 1024)
    assert found.provider == FileSpec(Path("conf/releases.json"))
    assert loaded(HEAD + LISTEN + WHO + FROM.replace("releases", "/r/releases")).provider == FileSpec(
        Path("/r/releases.json")
    )
    assert loaded(HEAD + LISTEN + WHO + FROM.replace("}}", "}, observe: false}")).observe is False
    assert loaded(HEAD + LISTEN + WHO + FROM + "max_observations: 65536\n").max_observations == 65_536


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("'[::1]:8780'", ("[::1]", 8780)),
        ("0.0.0.0:65535", ("0.0.0.0", 65_535)),
        ("localhost:80", ("localhost", 80)),
    ],
)
def test_where_it_listens(text: str, expected: tuple[str, int]) -> None:
    """RT-9.1: a host, or an IPv6 address in brackets, and a port; 0 takes a free one."""
    assert loaded(HEAD + f"listen: {text}\n" + WHO + FROM).listen == expected


def test_each_provider_is_taken() -> None:
    """RT-9.1: with what is not said as the clauses of each provider say."""
    etcd = "provider: {etcd: {endpoints: ['http://e:2379', 'https://[::1]:2379/']}}\n"
    assert loaded(HEAD + LISTEN + WHO + etcd).provider == EtcdSpec(
        ("http://e:2379", "https://[::1]:2379/"), "/idkmesh/agents"
    )
    nacos = "provider: {nacos: {servers: ['n:8848'], namespace: dev, clusters: [a], username: u, password_file: p}}\n"
    assert loaded(HEAD + LISTEN + WHO + nacos).provider == NacosSpec(
        servers=("n:8848",), namespace="dev", group="DEFAULT_GROUP", clusters=("a",), username="u",
        password="the password in conf/p",
    )  # fmt: skip
    assert "the password" not in repr(loaded(HEAD + LISTEN + WHO + nacos))
    direct = loaded(HEAD + LISTEN + WHO + DIRECT % (RELEASE % "'HTTP://A:1/', 'http://a:1'"))
    assert direct.provider == DirectSpec({Target("echo", "1.0.0", "r1"): snapshot_of([endpoint_of("http://a:1")])})
    assert direct.observe is False


# --- what is not -----------------------------------------------------------------------------------------------------

RULES = [
    (HEAD + LISTEN + WHO + FROM + "@@lisen: x\n", Rule.UNKNOWN_KEY),
    (HEAD + LISTEN + WHO + FROM + "@@listen: 127.0.0.1:1\n", Rule.DUPLICATE_KEY),
    (HEAD + LISTEN + "credentials: @@*a\n" + FROM, Rule.ALIAS),
    (HEAD + "listen: @@!!str 127.0.0.1:1\n" + WHO + FROM, Rule.TAG),
    ("@@" + HEAD + LISTEN + WHO, Rule.MISSING_KEY),
    (HEAD.replace('"0.1"', '@@"0.2"') + LISTEN + WHO + FROM, Rule.FORM),
    (HEAD.replace('"0.1"', "@@0.1") + LISTEN + WHO + FROM, Rule.TYPE),
    (HEAD.replace("idkmesh-router", "@@idkmesh-modules") + LISTEN + WHO + FROM, Rule.FORM),
    (HEAD + "listen: @@127.0.0.1\n" + WHO + FROM, Rule.FORM),
    (HEAD + "listen: @@127.0.0.1:65536\n" + WHO + FROM, Rule.FORM),
    (HEAD + "listen: @@8780\n" + WHO + FROM, Rule.TYPE),
    (HEAD + LISTEN + "credentials: @@[]\n" + FROM, Rule.RANGE),
    (HEAD + LISTEN + "credentials: [@@{id: a}]\n" + FROM, Rule.MISSING_KEY),
    (HEAD + LISTEN + "credentials: [{id: @@A, token_file: a}]\n" + FROM, Rule.FORM),
    (HEAD + LISTEN + "credentials: [{id: a, token_file: @@bad}]\n" + FROM, Rule.TOKEN),
    (HEAD + LISTEN + "credentials: [{id: a, token_file: a}, {id: @@a, token_file: b}]\n" + FROM, Rule.DUPLICATE_NAME),
    (HEAD + LISTEN + "credentials: [{id: a, token_file: a}, {id: b, token_file: @@a.again}]\n" + FROM, Rule.TOKEN),
    (HEAD + LISTEN + WHO + "provider: @@{}\n", Rule.MISSING_KEY),
    (HEAD + LISTEN + WHO + "provider: @@{observe: true}\n", Rule.MISSING_KEY),
    (HEAD + LISTEN + WHO + "provider: {file: {path: a}, @@direct: {releases: []}}\n", Rule.ONE_OF),
    (HEAD + LISTEN + WHO + "provider: {direct: {releases: []}, @@observe: false}\n", Rule.MISPLACED_KEY),
    (HEAD + LISTEN + WHO + "provider: {@@consul: {}, file: {path: a}}\n", Rule.UNKNOWN_KEY),
    (HEAD + LISTEN + WHO + "provider: {file: @@{}}\n", Rule.MISSING_KEY),
    (HEAD + LISTEN + WHO + "provider: {file: {path: a}, observe: @@yes}\n", Rule.TYPE),
    (HEAD + LISTEN + WHO + "provider: {etcd: {endpoints: @@[]}}\n", Rule.RANGE),
    (HEAD + LISTEN + WHO + "provider: {etcd: {endpoints: [@@'http://e']}}\n", Rule.FORM),
    (HEAD + LISTEN + WHO + "provider: {etcd: {endpoints: [@@'http://u:p@e:1']}}\n", Rule.CREDENTIALS),
    (HEAD + LISTEN + WHO + "provider: {etcd: {endpoints: ['http://e:1'], prefix: @@/a/}}\n", Rule.FORM),
    (HEAD + LISTEN + WHO + "provider: {nacos: @@{servers: ['n:1'], username: u}}\n", Rule.MISSING_KEY),
    (HEAD + LISTEN + WHO + "provider: {nacos: @@{servers: ['n:1'], password_file: p}}\n", Rule.MISSING_KEY),
    (HEAD + LISTEN + WHO + f"provider: {{etcd: {{endpoints: ['http://e:1'], prefix: @@/{'a' * 65}}}}}\n", Rule.FORM),
    (HEAD + LISTEN + WHO + "provider: {nacos: {servers: [@@'n:64536']}}\n", Rule.FORM),
    (
        HEAD + LISTEN + WHO + "provider: {nacos: {servers: ['n:1'], username: u, password_file: @@bad}}\n",
        Rule.TOKEN,
    ),
    (HEAD + LISTEN + WHO + DIRECT % (RELEASE % "@@'http://1.2.3:1'"), Rule.ADDRESS),
    (HEAD + LISTEN + WHO + DIRECT % (RELEASE % "@@'http://[:::]:1'"), Rule.ADDRESS),
    (HEAD + LISTEN + WHO + DIRECT % (RELEASE % "@@'http://a:1/path'"), Rule.FORM),
    (HEAD + LISTEN + WHO + DIRECT % (RELEASE % "" + ", @@" + RELEASE % ""), Rule.DUPLICATE_NAME),
    (HEAD + LISTEN + WHO + DIRECT % (RELEASE % "").replace("echo", "@@a/b"), Rule.FORM),
    (
        HEAD + LISTEN + WHO + DIRECT % ("@@" + (RELEASE % "").replace("echo", "e" * 128).replace("r1", "r" * 128)),
        Rule.RANGE,
    ),
    (HEAD + LISTEN + WHO + FROM + "max_observations: @@0\n", Rule.RANGE),
    (HEAD + LISTEN + WHO + FROM + "max_observations: @@65537\n", Rule.RANGE),
]  # fmt: skip


@pytest.mark.parametrize(("text", "rule"), RULES, ids=[str(number) for number in range(len(RULES))])
def test_each_refusal_says_where_by_which_rule_and_what_to_do(text: str, rule: Rule) -> None:
    """RT-9.1, RT-9.2: file, line, column, rule and mend, in one line."""
    found, line = refused(text)
    assert found[0] is rule
    assert line.endswith(f" [{rule.value}]")
    assert "\n" not in line


def test_all_that_is_wrong_is_told() -> None:
    """RT-9.1: in the order of the file, so that one look mends it."""
    with pytest.raises(ConfigurationError) as told:
        loaded("kind: x\nlisten: 1\ncredentials: [{id: A, token_file: bad}]\nprovider: {}\n")
    rules = sorted(finding.rule.value for finding in told.value.findings)
    assert rules == ["missing-key", "missing-key", "token", "wrong-form", "wrong-form", "wrong-type"]
    assert [finding.line for finding in told.value.findings] == sorted(finding.line for finding in told.value.findings)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    """RT-9.1: no file, a folder, one that is too large or no UTF-8: one finding, with what to do."""
    large, other = tmp_path / "large", tmp_path / "other"
    large.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    other.write_bytes(b"a: \xff")
    for path in (tmp_path / "nothing", tmp_path, large, other):
        with pytest.raises(ConfigurationError) as told:
            read_configuration(path)
        assert [finding.rule for finding in told.value.findings] == [Rule.UNREADABLE]


def test_nothing_that_may_be_a_secret_is_repeated() -> None:
    """RT-9.2, RT-11.5: whatever stands where it does not belong."""
    secret = "s3cret!s3cret!s3cret!s3cret!s3cret!"
    for text in (
        HEAD + LISTEN + f"credentials: [{{id: '{secret}', token_file: a}}]\n" + FROM,
        HEAD + LISTEN + f"credentials: [{{id: a, token: '{secret}'}}]\n" + FROM,
        HEAD + LISTEN + WHO + f"provider: {{nacos: {{servers: ['n:1'], password: '{secret}'}}}}\n",
        HEAD + LISTEN + WHO + f"provider: {{etcd: {{endpoints: ['http://u:{secret}@e:1']}}}}\n",
        HEAD + LISTEN + WHO + DIRECT % (RELEASE % f"'http://{secret}:1'"),
        HEAD + f"listen: '{secret}'\n" + WHO + FROM,
    ):
        with pytest.raises(ConfigurationError) as told:
            loaded(text)
        assert "s3cret" not in "".join(told.value.lines())


# --- the schema ------------------------------------------------------------------------------------------------------

WHOLE: dict[str, Any] = {
    "schema_version": "0.1",
    "kind": "idkmesh-router",
    "listen": "127.0.0.1:8780",
    "credentials": [{"id": "a", "token_file": "a"}, {"id": "b-1", "token_file": "/b"}],
    "max_observations": 5,
}
PROVIDERS: list[dict[str, Any]] = [
    {"file": {"path": "a"}, "observe": False},
    {
        "direct": {
            "releases": [
                {"agentId": "e", "agentCardVersion": "1+a", "releaseId": "r", "endpoints": ["http://a:1", "https://[::1]:2/"]},
                {"agentId": "e", "agentCardVersion": "2", "releaseId": "r", "endpoints": []},
            ]
        }
    },
    {"etcd": {"endpoints": ["http://a:1"], "prefix": "/a/b"}, "observe": True},
    {
        "nacos": {
            "servers": ["a:1", "[::1]:2"], "namespace": "n", "group": "g", "clusters": ["c"], "username": "u",
            "password_file": "p",
        }
    },
]  # fmt: skip
VALUES = st.one_of(
    st.sampled_from([None, True, False, 0, 1, -1, 65536, 65537, 1.0, 1.5, 10**40, [], {}, [None], {"a": 1}]),
    st.sampled_from(["", "a", "A", "a\n", "-a", "a/b", "/", "/a", "/a/", "é", "\0", "a:1", "[::1]:1", "x" * 129]),
    st.sampled_from(["http://a:1", "http://u:p@a:1", "http://a", "http://a:0", "http://1.2.3:1", "0.0.0.0:0"]),
    st.sampled_from(["0.1", "idkmesh-router", "bad"]),
    st.sampled_from([["http://a:1"], {"path": "a"}, {"releases": []}, {"endpoints": ["http://a:1"]}, {"id": "a"}]),
)  # fmt: skip
KEYS = st.sampled_from(["file", "direct", "etcd", "nacos", "observe", "password_file", "id", "x", "max_observations"])


def findings(document: Any) -> set[Rule]:
    found: tuple[Finding, ...] = ()
    try:
        loaded(yaml_text(document))
    except ConfigurationError as error:
        found = error.findings
    assert all(str(finding).isprintable() for finding in found)
    return {finding.rule for finding in found}


@settings(max_examples=400)
@given(st.sampled_from(PROVIDERS), st.integers(0, 3), st.data())
def test_loader_and_schema_agree(provider: dict[str, Any], changes: int, data: st.DataObject) -> None:
    """RT-9.1: what one refuses the other refuses, but for what no schema can say."""
    document = copy.deepcopy(WHOLE | {"provider": provider})
    for _ in range(changes):
        place = data.draw(st.sampled_from(list(containers(document))))
        keys: list[Any] = list(place) if isinstance(place, dict) else list(range(len(place)))
        how = data.draw(st.sampled_from(["replace", "delete", "add"]))
        if how == "add" and isinstance(place, list):
            place.append(copy.deepcopy(data.draw(VALUES)))
        elif how == "add":
            place[data.draw(KEYS)] = copy.deepcopy(data.draw(VALUES))
        elif keys and how == "delete":
            del place[data.draw(st.sampled_from(keys))]
        elif keys:
            place[data.draw(st.sampled_from(keys))] = copy.deepcopy(data.draw(VALUES))
    found = findings(document)
    assert bool(found - BEYOND) is not VALIDATOR.is_valid(document), (found, document)


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: next(iter(provider)))
def test_a_document_with_every_member_is_accepted(provider: dict[str, Any]) -> None:
    """RT-9.1: by both; so a refusal in the test above is of its changes."""
    assert findings(WHOLE | {"provider": provider}) == set()
    assert VALIDATOR.is_valid(WHOLE | {"provider": provider})


def test_the_schema_is_made_of_the_table() -> None:
    """RT-9.1: the ranges stand once; the published file says the same, and tells what each member is."""
    assert router_schema.FILE.read_text(encoding="utf-8") == router_schema.text(), "run scripts/reference"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for member, schema in members(SCHEMA):
        assert re.fullmatch(r"[A-Z].{5,}[.]", schema["description"]), member


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_patterns_mean_the_same_to_ecma_262() -> None:
    """RT-9.1: with Unicode on."""
    patterns = sorted({part["pattern"] for part in containers(SCHEMA) if isinstance(part, dict) and "pattern" in part})
    tried = ["", "a", "a:1", "[::1]:0", "http://a:1/", "http://u@a:1", "/a/b", "é", "\0", "\t", "a\n", "1+a", "😀"]
    program = """
        const [patterns, tried] = JSON.parse(require("fs").readFileSync(0, "utf8"));
        console.log(JSON.stringify(patterns.map((one) => tried.map((text) => new RegExp(one, "u").test(text)))));
    """
    told = json.dumps([patterns, tried])
    done = subprocess.run(["node", "-e", program], input=told, check=True, capture_output=True, text=True)
    expected = [[bool(re.search(one.removesuffix("$") + r"\Z", text)) for text in tried] for one in patterns]
    assert json.loads(done.stdout) == expected
