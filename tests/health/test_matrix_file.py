"""What a probe matrix may say, and how a person is told that it may not."""

from __future__ import annotations

import dataclasses
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from idkmesh.health.matrix_file import MAX_FILE_BYTES, load_matrix, read_matrix
from idkmesh.health.matrix_rules import DEPENDENCY, MATRIX, MAX_DEPENDENCIES, PROBES, SECRET_FIELDS, SHELLS
from idkmesh.health.model import (
    KINDS,
    Command,
    Dependency,
    Disk,
    Dns,
    Figures,
    File,
    Grpc,
    Http,
    Orchestrator,
    ProbeMatrix,
    Python,
    Refresh,
    Tcp,
    WatchdogFigures,
)
from idkmesh.validation import yaml_nodes
from idkmesh.validation.findings import Findings, MatrixError, Rule
from tests.health.matrices import EXAMPLE, HEAD, ROW, findings, many, marked, matrix_text
from tests.judging_time import seconds_to_judge

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from idkmesh.health.model import ProbeSpec

BASE = HEAD + ROW


def test_the_example_is_what_it_says() -> None:
    """HL-3.1: the file that is shown to users, value by value, defaults included."""
    db = Dependency(
        name="orders-db",
        critical=True,
        probe=Tcp(host="127.0.0.1", port=5432),
        timeout_ms=500,
        interval_ms=2000,
        cache_ms=5000,
        failure_threshold=1,
        success_threshold=2,
        refresh=Refresh.SCHEDULE,
    )
    cache = Dependency(
        name="cache",
        critical=False,
        probe=Command(argv=("redis-cli", "ping")),
        timeout_ms=500,
        interval_ms=5000,
        cache_ms=10000,
    )
    orchestrator = Orchestrator(
        startup=Figures(period_ms=1000, timeout_ms=1000, failure_threshold=30),
        liveness=Figures(period_ms=10000, timeout_ms=1000, failure_threshold=3),
        readiness=Figures(period_ms=3000, timeout_ms=1000, failure_threshold=2),
    )
    watchdog = WatchdogFigures(interval_ms=1000, max_missed_ticks=5)
    assert read_matrix(EXAMPLE) == ProbeMatrix(orchestrator=orchestrator, watchdog=watchdog, dependencies=(db, cache))


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        ("tcp: {host: '::1', port: 1}", Tcp(host="::1", port=1)),
        ("tcp: {host: 'fe80::1%eth0', port: 65535}", Tcp(host="fe80::1%eth0", port=65535)),
        ("tcp: {host: my_db.example, port: 5432.0}", Tcp(host="my_db.example", port=5432)),
        ("http: {url: 'http://db:8080/health?full=1@2'}", Http(url="http://db:8080/health?full=1@2")),
        ("http: {url: 'HTTPS://[::1]'}", Http(url="HTTPS://[::1]")),
        (
            (
                "http: {url: http://db/, method: HEAD, unix_socket: /run/db, expect: [200, 503], "
                "headers: {X-A: '', Accept: a b}, headers_from_env: {Authorization: DB_TOKEN}}"
            ),
            Http(
                url="http://db/",
                method="HEAD",
                unix_socket="/run/db",
                expect=(200, 503),
                headers={"X-A": "", "Accept": "a b"},
                headers_from_env={"Authorization": "DB_TOKEN"},
            ),
        ),
        ("command: {argv: [pg_isready, -h, '', \"a\\nb\", sh]}", Command(argv=("pg_isready", "-h", "", "a\nb", "sh"))),
        ("dns: {name: db.example}", Dns(name="db.example")),
        ("file: {path: /run/ünï}", File(path="/run/ünï")),
        ("file: {path: a b, max_age_ms: 60000}", File(path="a b", max_age_ms=60000)),
        ("disk: {path: /, min_free_percent: 2.5}", Disk(path="/", min_free_percent=2.5)),
        (
            "disk: {path: /, min_free_bytes: 1, min_free_percent: 100}",
            Disk(path="/", min_free_percent=100, min_free_bytes=1),
        ),
        ("grpc: {target: 'db:50051'}", Grpc(target="db:50051")),
        ("grpc: {target: '[::1]:1', service: a.B, tls: true}", Grpc(target="[::1]:1", service="a.B", tls=True)),
        ("python: {target: 'shop.checks:Db.ping'}", Python(target="shop.checks:Db.ping")),
    ],
)
def test_each_kind_of_probe(probe: str, expected: ProbeSpec) -> None:
    """HL-3.1: each kind with all that it takes becomes its value."""
    (dependency,) = load_matrix(matrix_text(probe), "m.yaml").dependencies
    assert dependency.probe == expected
    assert type(dependency.probe) is type(expected)


def test_the_table_has_the_names_of_the_model() -> None:
    """HL-3.1: a member that the table has and the model lacks, or the other way round, would show at a user's."""
    pairs: list[tuple[Any, Any]] = [(PROBES[kind], model) for kind, model in KINDS.items()]
    assert PROBES.keys() == KINDS.keys()
    orchestrator: Any = MATRIX.members["orchestrator"]
    pairs += [(DEPENDENCY, Dependency), (orchestrator, Orchestrator)]
    pairs += [(MATRIX.members["watchdog"], WatchdogFigures)]
    pairs += [(figures, Figures) for figures in orchestrator.members.values()]
    for shape, model in pairs:
        fields = dataclasses.fields(model)
        assert {field.name for field in fields} == shape.members.keys()
        needed = {
            field.name
            for field in fields
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }
        assert needed == set(shape.required)


def test_a_matrix_without_dependencies() -> None:
    """HL-3.1: a service that depends on nothing says so."""
    assert load_matrix(HEAD.replace("dependencies:", "dependencies: []"), "m.yaml").dependencies == ()


# --- what is refused: the text with @@ before the place, the rule, and a part of the line ----------------------------

REFUSED: dict[str, tuple[str, Rule, str]] = {
    "no YAML": (BASE + "  - {name: [@@}\n", Rule.SYNTAX, "this is no YAML: while parsing"),
    "a tab as indentation": (BASE + "@@\t- a: b\n", Rule.SYNTAX, "check indentation"),
    "an empty file": ("@@", Rule.SYNTAX, "the file is empty"),
    "comments alone": ("@@# nothing\n", Rule.SYNTAX, "the file is empty"),
    "two documents": (BASE + "@@---\nkind: x\n", Rule.SYNTAX, "keep one document"),
    "a list": ("@@- a\n", Rule.TYPE, "the file is a list where a mapping is wanted"),
    "a text": ("@@hello\n", Rule.TYPE, "the file is text where a mapping is wanted"),
    "too deep": ("[" * 16 + "@@[" + "]" * 17, Rule.DEPTH, "16 levels"),
    "NUL": (BASE + "a@@\0b: c\n", Rule.UNREADABLE, "U+0000"),
    "half a surrogate pair": (BASE + "# @@\ud800\n", Rule.UNREADABLE, "U+D800"),
    "an alias": (matrix_text(name="@@*a"), Rule.ALIAS, "write out what it stands for"),
    "an anchor": (matrix_text(name="@@&a db"), Rule.ALIAS, "an anchor stands here; leave it out"),
    "an anchor on a mapping": (matrix_text("tcp: @@&a {host: a, port: 1}"), Rule.ALIAS, "anchor"),
    "a merge key": (matrix_text("tcp: {@@<<: {host: a}, host: a, port: 1}"), Rule.ALIAS, "merged"),
    "a tag": (matrix_text(name="@@!!str db"), Rule.TAG, "leave it out"),
    "a tag of nothing": (matrix_text(name="@@! db"), Rule.TAG, "leave it out"),
    "a tag that makes objects": (matrix_text(name="@@!!python/name:os.system"), Rule.TAG, "leave it out"),
    "a tag on a list": (matrix_text("command: {argv: @@!!seq [true-]}"), Rule.TAG, "leave it out"),
    "an unknown key": (matrix_text(**{"@@timeout": "5"}), Rule.UNKNOWN_KEY, "did you mean timeout_ms?"),
    "an unknown key that is like none": (BASE + "@@zzz: 1\n", Rule.UNKNOWN_KEY, "known are schema_version, kind,"),
    "an unknown key that is no name": (
        BASE + '@@"p w\\n": 1\n',
        Rule.UNKNOWN_KEY,
        "the file has an unknown key; known",
    ),
    "an unknown member of a probe": (
        matrix_text("tcp: {host: a, port: 1, @@prot: 2}"),
        Rule.UNKNOWN_KEY,
        "did you mean port?",
    ),
    "a key twice": (
        BASE + "@@kind: idkmesh-probe-matrix\n",
        Rule.DUPLICATE_KEY,
        "kind stands here again, first in line 2",
    ),
    "a key twice, once quoted": (matrix_text("tcp: {host: a, port: 1, @@'host': a}"), Rule.DUPLICATE_KEY, "host"),
    "a key that is a number": (
        BASE + "@@5: 1\n",
        Rule.TYPE,
        "a key is a number where text is wanted; put it in quotes",
    ),
    "a key that is a list": (BASE + "? @@[a]\n: 1\n", Rule.TYPE, "a key is a list where text is wanted"),
    "a key of a header that is a boolean": (
        matrix_text("http: {url: http://a, headers: {@@on: a}}"),
        Rule.TYPE,
        "put it in quotes",
    ),
    "another version": (
        BASE.replace('"0.1"', '@@"0.2"'),
        Rule.FORM,
        'schema_version is 0.2, which is not known; write "0.1"',
    ),
    "a version that is a number": (BASE.replace('"0.1"', "@@0.1"), Rule.TYPE, "put it in quotes"),
    "another kind": (BASE.replace("idkmesh-probe", "@@idkmesh-prob"), Rule.FORM, "write idkmesh-probe-matrix"),
    "no criticality": (
        matrix_text().replace("- name", "- @@name").replace("    critical: true\n", ""),
        Rule.MISSING_KEY,
        "add critical: true or false",
    ),
    "no host": (matrix_text("tcp: @@{port: 1}"), Rule.MISSING_KEY, "tcp has no host; add host: a host name"),
    "neither minimum": (matrix_text("disk: @@{path: /}"), Rule.MISSING_KEY, "add min_free_percent or min_free_bytes"),
    "a number in quotes": (
        matrix_text(timeout_ms="@@'500'"),
        Rule.TYPE,
        "timeout_ms is text where a whole number of ms from 1 to 60,000 is wanted; write it without quotes [",
    ),
    "a boolean as a number": (
        matrix_text(success_threshold="@@true"),
        Rule.TYPE,
        "is true or false where a whole number",
    ),
    "a number as a boolean": (matrix_text(critical="@@1"), Rule.TYPE, "write true or false"),
    "a boolean in quotes": (matrix_text(critical="@@'true'"), Rule.TYPE, "without quotes"),
    "a boolean of YAML 1.1": (matrix_text(critical="@@yes"), Rule.TYPE, "write true or false"),
    "a boolean of YAML 1.1 as a name": (matrix_text(name="@@no"), Rule.TYPE, "put it in quotes"),
    "a date as a name": (matrix_text(name="@@2026-01-01"), Rule.TYPE, "put it in quotes"),
    "a number of YAML 1.2 as a name": (matrix_text(name="@@1e3"), Rule.TYPE, "put it in quotes"),
    "y as a name": (matrix_text(name="@@y"), Rule.TYPE, "put it in quotes"),
    "an octal number": (
        matrix_text(success_threshold="@@010"),
        Rule.TYPE,
        "from 1 to 100 is wanted; write such a number [",
    ),
    "a hexadecimal number": (matrix_text(success_threshold="@@0x10"), Rule.TYPE, "whole number"),
    "sixties": (matrix_text(timeout_ms="@@1:30"), Rule.TYPE, "whole number"),
    "underscores": (matrix_text(timeout_ms="@@1_000"), Rule.TYPE, "whole number"),
    "not a number": (matrix_text("disk: {path: /, min_free_percent: @@.nan}"), Rule.TYPE, "where a number of percent"),
    "a fraction": (matrix_text(timeout_ms="@@500.5"), Rule.TYPE, "500.5, which is not whole"),
    "a number with a unit": (matrix_text(timeout_ms="@@500ms"), Rule.TYPE, "the number alone, without its unit ["),
    "a text as a list": (matrix_text("command: {argv: @@ping}"), Rule.TYPE, "write a list of 1 to 64"),
    "a number in an argument list": (
        matrix_text("command: {argv: [sleep, @@5]}"),
        Rule.TYPE,
        "item 2 of argv is a number",
    ),
    "nothing": (matrix_text(name="@@~"), Rule.TYPE, "name is empty where a name"),
    "nothing as a mapping": (
        BASE.replace("watchdog: {interval_ms: 1000, max_missed_ticks: 5}", "watchdog:@@"),
        Rule.TYPE,
        "write a mapping",
    ),
    "a place after signs of several bytes": (
        matrix_text("file: {path: /ü😀, max_age_ms: @@a}"),
        Rule.TYPE,
        "max_age_ms is text",
    ),
    "zero": (matrix_text(timeout_ms="@@0"), Rule.RANGE, "timeout_ms is 0; write a whole number of ms from 1 to 60,000"),
    "below zero": (matrix_text(interval_ms="@@-2000"), Rule.RANGE, "interval_ms is -2000; "),
    "a number without end": (matrix_text(interval_ms="@@" + "9" * 100_000), Rule.RANGE, "is a number without end"),
    "a number without end below zero": (matrix_text(interval_ms="@@-" + "9" * 100), Rule.RANGE, "without end"),
    "a port": (matrix_text("tcp: {host: a, port: @@65536}"), Rule.RANGE, "from 1 to 65,535"),
    "no arguments": (matrix_text("command: {argv: @@[]}"), Rule.RANGE, "argv has 0 items"),
    "too many arguments": (
        matrix_text(f"command: {{argv: @@[{', '.join('a' * 65)}]}}"),
        Rule.RANGE,
        "argv has 65 items",
    ),
    "too many header fields": (
        matrix_text(f"http: {{url: http://a, headers: @@{{{', '.join(f'h{n}: a' for n in range(65))}}}}}"),
        Rule.RANGE,
        "headers has 65 keys; write 64 at most",
    ),
    "an empty name": (matrix_text(name="@@''"), Rule.RANGE, "name has 0 characters"),
    "a name of 64 characters": (matrix_text(name="@@" + "a" * 64), Rule.RANGE, "of 1 to 63 characters"),
    "capitals in a name": (matrix_text(name="@@Db"), Rule.FORM, "write a name of a-z and 0-9, with - and . inside"),
    "a hyphen at the end of a name": (matrix_text(name="@@db-"), Rule.FORM, "with - and . inside"),
    "a line feed after a name": (matrix_text(name='@@"db\\n"'), Rule.FORM, "with - and . inside"),
    "a port in a host": (matrix_text("tcp: {host: @@'db:1', port: 1}"), Rule.FORM, "without port and brackets"),
    "an address in brackets": (matrix_text("tcp: {host: @@'[::1]', port: 1}"), Rule.FORM, "without port and brackets"),
    "an address that is none": (
        matrix_text("tcp: {host: @@'1::2::3', port: 1}"),
        Rule.ADDRESS,
        "host has no valid IPv6",
    ),
    "such an address in a URL": (matrix_text("http: {url: @@'http://[::::]/[::1]'}"), Rule.ADDRESS, "url has no valid"),
    "such an address in a target": (matrix_text("grpc: {target: @@'[::::]:1'}"), Rule.ADDRESS, "target has no valid"),
    "a URL of another scheme": (matrix_text("http: {url: @@'ftp://a/'}"), Rule.FORM, "a URL such as"),
    "a URL with a space": (matrix_text("http: {url: @@'http://a/ b'}"), Rule.FORM, "a URL such as"),
    "a URL with a fragment": (matrix_text("http: {url: @@'http://a/#b'}"), Rule.FORM, "without fragment"),
    "a URL with port 65536": (matrix_text("http: {url: @@'http://a:65536/'}"), Rule.FORM, "a URL such as"),
    "a method that changes things": (
        matrix_text("http: {url: http://a, method: @@POST}"),
        Rule.FORM,
        "write GET or HEAD",
    ),
    "a word with a line feed": (
        matrix_text('http: {url: http://a, method: @@"a\\nb"}'),
        Rule.FORM,
        "is something, which",
    ),
    "a line feed in a header": (
        matrix_text('http: {url: http://a, headers: {A: @@"b\\r\\nC: d"}}'),
        Rule.FORM,
        "the value A of headers is not printable ASCII",
    ),
    "a header that is no name": (
        matrix_text("http: {url: http://a, headers: {@@'a b': c}}"),
        Rule.FORM,
        "a key of headers",
    ),
    "a field twice": (matrix_text("http: {url: http://a, headers: {A-b: c, @@a-B: c}}"), Rule.DUPLICATE_KEY, "a-B"),
    "a field from both": (
        matrix_text("http: {url: http://a, headers: {A: c}, headers_from_env: {@@a: B}}"),
        Rule.DUPLICATE_KEY,
        "capitals",
    ),
    "an informational status": (
        matrix_text("http: {url: http://a, expect: [@@101]}"),
        Rule.RANGE,
        "item 1 of expect is 101",
    ),
    "NUL in an argument": (matrix_text('command: {argv: [a, @@"\\0"]}'), Rule.FORM, "without NUL"),
    "NUL in a path": (matrix_text('file: {path: @@"a\\0"}'), Rule.FORM, "without NUL"),
    "no callable": (matrix_text("python: {target: @@shop.checks}"), Rule.FORM, "write MODULE:CALLABLE"),
    "a target without port": (matrix_text("grpc: {target: @@db}"), Rule.FORM, "write HOST:PORT"),
    "no probe": (
        matrix_text(probe="").replace("{}", "@@{}"),
        Rule.ONE_PROBE,
        "probe has no kinds; write one of tcp, http,",
    ),
    "two probes": (
        matrix_text(probe="").replace("{}", "@@{tcp: {host: a, port: 1}, dns: {name: a}}"),
        Rule.ONE_PROBE,
        "probe has 2 kinds; write one of tcp",
    ),
    "an unknown kind": (matrix_text("@@tpc: {host: a}"), Rule.UNKNOWN_KEY, "did you mean tcp?"),
    "an unknown refresh": (matrix_text(refresh="@@never", cache_ms="5"), Rule.FORM, "write schedule or request"),
    "a name twice": (
        BASE + ROW.replace("db", "@@db"),
        Rule.DUPLICATE_NAME,
        "the name db stands here again, first in line 9",
    ),
    "the 1,001st": (
        many(MAX_DEPENDENCIES + 1).replace("dependencies:\n  - ", "dependencies:\n  @@- "),
        Rule.RANGE,
        "dependencies has 1,001 items; write a list of 0 to 1,000",
    ),
}


@pytest.mark.parametrize(("text", "rule", "part"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused(text: str, rule: Rule, part: str) -> None:
    """HL-3.2: one finding for one mistake, with its place, its rule, what is wrong and the mend."""
    text, line, column = marked(text)
    (finding,) = findings(text)
    assert (finding.line, finding.column, finding.rule) == (line, column, rule)
    assert (finding.file, part in str(finding)) == ("m.yaml", True), str(finding)
    assert str(finding) == f"m.yaml:{line}:{column}: {finding.what}; {finding.mend} [{rule.value}]"
    assert str(finding).isprintable()


TIMING: dict[str, tuple[str, Rule, str]] = {
    "as long as readiness": (matrix_text(timeout_ms="@@1000"), Rule.TIMEOUT_READINESS, "write less than 1000"),
    "a noncritical one too": (
        matrix_text(timeout_ms="@@1001", critical="false"),
        Rule.TIMEOUT_READINESS,
        "not below the orchestrator's",
    ),
    "over the interval": (matrix_text(timeout_ms="@@201", interval_ms="200"), Rule.TIMEOUT_INTERVAL, "at most 200"),
    "a gap in what is known": (matrix_text(cache_ms="@@2499"), Rule.CACHE, "write at least 2500"),
    "one that is asked for": (
        matrix_text(cache_ms="@@5499", refresh="request"),
        Rule.CACHE,
        "with refresh: request the orchestrator's period_ms of readiness, 3000; write at least 5500",
    ),
    "a noncritical one that is asked for": (
        matrix_text(cache_ms="@@5499", refresh="request", critical="false"),
        Rule.CACHE,
        "write at least 5500",
    ),
    "a threshold on a critical one": (matrix_text(failure_threshold="@@2"), Rule.CRITICAL_THRESHOLD, "leave it out"),
    "startup": (
        BASE.replace("{period_ms: 1000, timeout_ms: ", "{period_ms: 999, timeout_ms: @@"),
        Rule.TIMEOUT_PERIOD,
        "startup has",
    ),
    "liveness": (
        BASE.replace("{period_ms: 10000, timeout_ms: ", "{period_ms: 999, timeout_ms: @@"),
        Rule.TIMEOUT_PERIOD,
        "liveness",
    ),
    "readiness": (
        BASE.replace("{period_ms: 3000, timeout_ms: ", "{period_ms: 999, timeout_ms: @@"),
        Rule.TIMEOUT_PERIOD,
        "at most 999",
    ),
}


@pytest.mark.parametrize(("text", "rule", "part"), TIMING.values(), ids=TIMING)
def test_impossible_timing_is_refused(text: str, rule: Rule, part: str) -> None:
    """HL-3.3: each relation, at the figure that breaks it."""
    test_what_cannot_be_is_refused(text, rule, part)


@pytest.mark.parametrize(
    "members",
    [
        {"timeout_ms": "999"},
        {"timeout_ms": "200", "interval_ms": "200"},
        {"cache_ms": "2500"},
        {"cache_ms": "5500", "refresh": "request"},
        {"failure_threshold": "2", "critical": "false"},
        {"failure_threshold": "1"},
    ],
)
def test_possible_timing_is_accepted(members: dict[str, str]) -> None:
    """HL-3.3: at each bound; an orchestrator's timeout as long as its period is in every matrix of these tests."""
    (dependency,) = load_matrix(matrix_text(**members), "m.yaml").dependencies
    assert dependency.name == "db"


@pytest.mark.parametrize(
    "name", [*SHELLS, "/bin/sh", "../bash", "C:\\Windows\\System32\\CMD.EXE", "\n/sh", "PowerShell"]
)
def test_a_shell_is_no_probe(name: str) -> None:
    """HL-3.2: refused by its basename, with the reason."""
    quoted = yaml.safe_dump(name, default_style='"').strip()
    text, line, column = marked(matrix_text(f"command: {{argv: [@@{quoted}, -c, 'ping | true']}}"))
    (finding,) = findings(text)
    assert (finding.rule, finding.line, finding.column) == (Rule.SHELL, line, column)
    assert "is a shell" in finding.what
    assert "script" in finding.mend


@pytest.mark.parametrize("name", ["shell", "sh.py", "/bin/sh/ping", "publish", "fish-check", "ssh", "cmd2"])
def test_what_is_only_called_like_a_shell(name: str) -> None:
    """HL-3.2: a word that has a shell's name in it is none."""
    (dependency,) = load_matrix(matrix_text(f"command: {{argv: [{name}]}}"), "m.yaml").dependencies
    assert dependency.probe == Command(argv=(name,))


@pytest.mark.parametrize(
    "probe",
    [
        "http: {url: @@'http://scott:tiger@db/'}",
        "http: {url: @@'https://tiger@db:8443?a'}",
        "http: {url: @@'HTTP://scott:ti@ger@db'}",
        "http: {url: @@'ftp://scott:tiger@db'}",
        "http: {url: @@'//scott:tiger@db'}",
        *(f"http: {{url: http://db, headers: {{@@{name.title()}: tiger}}}}" for name in SECRET_FIELDS),
    ],
)
def test_credentials_have_no_place_in_the_file(probe: str) -> None:
    """HL-3.2: what names them is headers_from_env; the line that says so does not repeat them."""
    text, line, column = marked(matrix_text(probe))
    (finding,) = findings(text)
    assert (finding.rule, finding.line, finding.column) == (Rule.CREDENTIALS, line, column)
    assert "headers_from_env" in finding.mend
    assert "tiger" not in str(finding)


@given(st.sampled_from(["host", "url", "path", "argv", "key", "refresh", "cut"]), st.sampled_from("@:;/#? \n\\é"))
def test_no_line_repeats_a_text(place: str, sign: str) -> None:
    """HL-3.2: whatever stands in a wrong place may be a secret, so its text is never repeated."""
    secret = yaml.safe_dump(f"postgres://scott:tiger@db{sign}x", default_style='"', width=1000).strip()
    texts = {
        "host": matrix_text(f"tcp: {{host: {secret}, port: {secret}}}"),
        "url": matrix_text(f"http: {{url: {secret}, method: {secret}, expect: {secret}}}"),
        "path": matrix_text(f"disk: {{path: [{secret}], min_free_percent: {secret}}}"),
        "argv": matrix_text(f"command: {{argv: {secret}}}"),
        "key": matrix_text(f"{secret}: {secret}") + f"    {secret}: 1\n    {secret}: 2\n",
        "refresh": matrix_text(refresh=secret, name=secret, critical=secret),
        "cut": matrix_text() + f"{secret}: {{a: [{secret}\n",
    }
    for finding in findings(texts[place]):
        assert "tiger" not in str(finding)
        assert str(finding).isprintable()


# --- all findings ----------------------------------------------------------------------------------------------------


def test_all_findings_are_told_in_the_order_of_the_file() -> None:
    """HL-3.2: a file is mended in one go; as text the error is the first line and how many more."""
    text = (
        BASE.replace('"0.1"', "1")
        .replace("critical: true", "critical: maybe")
        .replace("timeout_ms: 500", "timeout_ms: 5000\n    timeout_ms: 1")
        .replace("max_missed_ticks: 5", "max_missed_tick: 5")
    )
    with pytest.raises(MatrixError) as caught:
        load_matrix(text, "m.yaml")
    error = caught.value
    assert isinstance(error, ValueError)
    rules = [(finding.line, finding.rule) for finding in error.findings]
    assert rules == [
        (1, Rule.TYPE),
        (7, Rule.MISSING_KEY),
        (7, Rule.UNKNOWN_KEY),
        (10, Rule.TYPE),
        (12, Rule.TIMEOUT_READINESS),
        (12, Rule.TIMEOUT_INTERVAL),
        (13, Rule.DUPLICATE_KEY),
        (15, Rule.CACHE),
    ]
    assert error.lines() == [str(finding) for finding in error.findings]
    assert str(error) == f"{error.lines()[0]} (and {len(rules) - 1} more)"
    single = MatrixError(error.findings[:1])
    assert str(single) == error.lines()[0]


def test_a_figure_that_is_wrong_is_not_judged_twice() -> None:
    """HL-3.2, HL-3.3: relations are judged where all that they need is right, and nowhere else."""
    text = BASE.replace("timeout_ms: 1000, failure_threshold: 2", "timeout_ms: x, failure_threshold: 2")
    assert [finding.rule for finding in findings(text.replace("timeout_ms: 500", "timeout_ms: 1500"))] == [Rule.TYPE]
    broken = text.replace("tcp:", "http:").replace("name: db", "name: 5")
    assert {finding.rule for finding in findings(broken)} == {Rule.TYPE, Rule.UNKNOWN_KEY, Rule.MISSING_KEY}
    assert [finding.rule for finding in findings(HEAD + "  - 5\n" + ROW)] == [Rule.TYPE]
    assert [finding.rule for finding in findings(HEAD + "  - *a\n" + ROW)] == [Rule.ALIAS]
    assert [finding.rule for finding in findings(matrix_text("tcp: 5"))] == [Rule.TYPE]


# --- the same with both parsers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [EXAMPLE.read_text(encoding="utf-8"), *(row[0] for row in REFUSED.values())])
def test_the_parser_in_python_says_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-3.2: PyYAML without libyaml gives the same tree and the same findings, but for the words of its own."""
    found = []
    text = text.replace("@@", "")
    for loader in (yaml.CSafeLoader, yaml.SafeLoader):
        monkeypatch.setattr(yaml_nodes, "_LOADER", loader)
        gathered = Findings("m.yaml")
        tree = yaml_nodes.parse(text, gathered)
        rules = [finding.rule for finding in gathered.error().findings]
        found.append((tree, rules))
    assert found[0] == found[1]


@given(st.text(st.characters(codec="utf-8"), max_size=30), st.sampled_from(["", "'", '"', "|\n    "]))
def test_any_text_is_judged(text: str, quote: str) -> None:
    """HL-3.2: whatever stands in a file, it is a matrix or its findings have places within it."""
    whole = f"a:\n  - {quote}{text}{quote}\n"
    for finding in findings(whole):
        assert 1 <= finding.line <= len(whole.splitlines()) + 1
        assert finding.column >= 1
        assert str(finding).isprintable()


# --- files -----------------------------------------------------------------------------------------------------------


def read_findings(path: Path) -> str:
    with pytest.raises(MatrixError) as caught:
        read_matrix(path)
    (line,) = caught.value.lines()
    assert str(caught.value) == line
    assert line.isprintable()
    return line.replace(str(path), "FILE")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """HL-3.2: one line each, and it names the file."""
    assert read_findings(tmp_path / "none").startswith("FILE:1:1: cannot be read: No such file")
    assert read_findings(tmp_path).startswith("FILE:1:1: cannot be read: Is a directory")
    with pytest.raises(MatrixError, match="null byte"):
        read_matrix("a\0b")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    """HL-3.2: not UTF-8 and NUL are told with their place; a byte order mark is none of the text."""
    file = tmp_path / "m.yaml"
    file.write_bytes(BASE.encode() + "# ü\r\n# ü".encode() + b"\xfc\n")
    lines = BASE.count("\n")
    assert read_findings(file).startswith(f"FILE:{lines + 2}:4: byte 0xFC is no UTF-8; save the file as UTF-8")
    file.write_bytes(BASE.encode("utf-16"))
    assert read_findings(file).startswith("FILE:1:1: byte 0xFF is no UTF-8")
    file.write_bytes(BASE.encode() + b"#\0\n")
    assert read_findings(file).startswith(f"FILE:{lines + 1}:2: the character U+0000")
    file.write_bytes(b"\xef\xbb\xbf" + BASE.encode())
    assert read_matrix(file) == load_matrix(BASE, "")
    file.write_bytes(BASE.replace("\n", "\r\n").encode())
    assert read_matrix(file) == load_matrix(BASE, "")


def test_a_file_has_a_bound(tmp_path: Path) -> None:
    """HL-3.2: 1 MiB is read, one byte more is refused, and a device without end too."""
    file = tmp_path / "m.yaml"
    file.write_bytes(BASE.encode().ljust(MAX_FILE_BYTES, b"\n"))
    assert read_matrix(file) == load_matrix(BASE, "")
    file.write_bytes(BASE.encode().ljust(MAX_FILE_BYTES + 1, b"\n"))
    assert read_findings(file).startswith("FILE:1:1: is larger than 1,048,576 bytes")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_a_pipe_is_read(tmp_path: Path) -> None:
    """HL-3.2: a matrix may come from a pipe, as shells give it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(BASE,))
    writer.start()
    assert read_matrix(str(pipe)) == load_matrix(BASE, "")
    writer.join()


def test_a_pipe_is_not_read_again(tmp_path: Path) -> None:
    """HL-3.5: to open it would wait for a writer; a file in its place is read."""
    path = tmp_path / "matrix.yaml"
    os.mkfifo(path)
    with pytest.raises(MatrixError, match="is a FIFO, which is read once") as refused:
        read_matrix(path, again=True)
    assert [finding.rule for finding in refused.value.findings] == [Rule.UNREADABLE]
    path.unlink()
    path.write_text(BASE, encoding="utf-8")
    assert read_matrix(path, again=True) == load_matrix(BASE, "")


# --- time ------------------------------------------------------------------------------------------------------------


def seconds(text: str) -> float:
    """Return how long a text is judged."""
    return seconds_to_judge(load_matrix, MatrixError, text)


def test_a_thousand_dependencies() -> None:
    """HL-3.2: the largest matrix is judged while nobody notices."""
    assert len(load_matrix(many(MAX_DEPENDENCIES), "m.yaml").dependencies) == MAX_DEPENDENCIES
    assert seconds(many(MAX_DEPENDENCIES)) < 1


HOSTILE: dict[str, Callable[[int], str]] = {
    "rows": lambda size: many(size // 200),
    "brackets": lambda size: "[" * size,
    "braces": lambda size: "{a: " * (size // 4),
    "hyphens": lambda size: "- " * (size // 2),
    "items": lambda size: "- a\n" * (size // 4),
    "items on a line": lambda size: "[" + "a," * (size // 2) + "]",
    "the same key": lambda size: "a:\n" * (size // 3),
    "unknown keys": lambda size: "".join(f"kin{number}: 1\n" for number in range(size // 12)),
    "a long key": lambda size: f"? {'a' * size}\n: 1\n",
    "a long text": lambda size: f"kind: '{'a' * size}'",
    "a long number": lambda size: f"kind: {'9' * size}",
    "sixties": lambda size: "kind: " + "1:" * (size // 2) + "1",
    "anchors": lambda size: "- &a a\n" * (size // 7),
    "aliases": lambda size: "- *a\n" * (size // 5),
    "quotes": lambda size: "- '" + "''" * (size // 2),
    "lines": lambda size: "\n" * size + "\0",
    "a block": lambda size: "kind: |\n" + " a\n" * (size // 3),
    "names": lambda size: many(size // 2300, ROW.replace("host: 127.0.0.1", f"host: '{'a:' * 1000}'")),
    "URLs": lambda size: many(
        size // 2200, ROW.replace("tcp: {host: 127.0.0.1, port: 5432}", f"http: {{url: 'http://{'@/' * 1000}'}}")
    ),
    "URLs without end": lambda size: many(
        size // 2200, ROW.replace("tcp: {host: 127.0.0.1, port: 5432}", f"http: {{url: '{'/' * 2000}'}}")
    ),
    "programs": lambda size: many(
        size // 4200, ROW.replace("tcp: {host: 127.0.0.1, port: 5432}", f"command: {{argv: ['{'/bas' * 1000}']}}")
    ),
    "modules": lambda size: many(
        size // 300, ROW.replace("tcp: {host: 127.0.0.1, port: 5432}", f"python: {{target: '{'a.' * 125}'}}")
    ),
}


@pytest.mark.parametrize("build", HOSTILE.values(), ids=HOSTILE)
def test_work_is_linear(build: Callable[[int], str]) -> None:
    """HL-3.2: eight times the file takes about eight times the work, whatever is in it; quadratic would be 64."""
    small, large = build(25_000), build(200_000)
    ratios: list[float] = []
    while len(ratios) < 3 and (not ratios or ratios[-1] > 24):  # a busy machine gets another chance
        ratios.append(seconds(large) / max(seconds(small), 0.001))
    assert min(ratios) <= 24


# --- which file ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("named", "read"), [("other.yaml", "other"), ("", "own"), (None, "own")])
def test_the_environment_names_the_file(
    named: str | None, read: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HL-6.1, HL-8.1: `IDKMESH_MATRIX` wins over the program's own file, unless it is unset or empty."""
    for name in ("own", "other"):
        (tmp_path / f"{name}.yaml").write_text(matrix_text(name=name), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("IDKMESH_MATRIX", raising=False)
    if named is not None:
        monkeypatch.setenv("IDKMESH_MATRIX", named)
    assert [row.name for row in ProbeMatrix.from_environment("own.yaml").dependencies] == [read]


def test_a_file_of_the_environment_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-3.2, HL-6.1: it is refused by its name; the program's own is not taken in its place."""
    monkeypatch.setenv("IDKMESH_MATRIX", "nowhere.yaml")
    with pytest.raises(MatrixError, match=r"^nowhere\.yaml:1:1: cannot be read"):
        ProbeMatrix.from_environment(EXAMPLE)
