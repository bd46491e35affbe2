"""The table of settings, what is in force by it, and ``idkmesh config show``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from idkmesh import settings
from idkmesh.adapter.looks import CLIENT_FILE_VARIABLE
from idkmesh.cli import build_parser, main
from idkmesh.cli.control_tower import control_tower
from idkmesh.cli.parser import flags_of
from idkmesh.cli.router import route
from idkmesh.cli.serve import serve
from idkmesh.commands.config import Looked, settings_document, table_of_all
from idkmesh.console import CommandError
from idkmesh.events.retention import RETENTION_SETTINGS, Retention
from idkmesh.health.model import MATRIX_VARIABLE
from idkmesh.service_runtime import ACCESS_LOG_VARIABLE, SETTINGS, ServiceLimits, SettingError
from idkmesh.settings import ADAPTER, COMMANDS, ROUTER, SERVE, SUPERVISE, TABLE, TOWER, Kind, rows_of
from idkmesh.settings_in_force import Origin, Source, in_force, slips, value_of
from idkmesh.workloads.model import DEFAULT_PROBE_UID
from idkmesh.workloads.probe_user import VARIABLE as PROBE_UID_VARIABLE

ROOT = Path(__file__).parents[1]
TOKEN = "a-token-of-the-test-suite-0123456789"
WORDS = {
    Kind.PORT: ("81", 81),
    Kind.LISTEN: ("[::1]:9", ("[::1]", 9)),
    Kind.LOOPBACK: ("127.0.0.2:9", ("127.0.0.2", 9)),
}
WORDS |= {Kind.USER: ("7", 7), Kind.SWITCH: ("1", True)}


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Return a process without a variable of our name."""
    for name in list(os.environ):
        if name.startswith("IDKMESH_"):
            monkeypatch.delenv(name)
    return monkeypatch


def text_of(row: settings.CommandSetting) -> tuple[str, Any]:
    """Return a text that a setting takes, which is not its default, and what it means."""
    if row.number is not None:
        value = row.number.kind(row.number.minimum + 50 if row.number.maximum > 60 else row.number.maximum)
        return f"{value:.15g}", value
    return WORDS.get(row.kind, ("x1", "x1"))


# --- the table -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_a_name_a_flag_and_a_variable_once(command: str) -> None:
    """CT-9.11: what a flag or variable means does not depend on where it is looked up."""
    rows = rows_of(command)
    for names in ([row.name for row in rows], [row.flag for row in rows], [row.variable for row in rows]):
        given = [name for name in names if name is not None]
        assert len(given) == len(set(given))


def test_a_name_is_of_one_kind_everywhere() -> None:
    """CT-9.11: commands differ in defaults and in a flag, never in what a variable is."""
    for name in {row.name for row in TABLE}:
        rows = [row for row in TABLE if row.name == name]
        assert len({row.variable for row in rows} - {None}) <= 1
        assert {row.kind for row in rows} in ({rows[0].kind}, {Kind.FILE, Kind.SECRET_FILE})


def test_what_has_no_flag_or_no_variable_says_why() -> None:
    """CT-9.11: a setting has both, or a reason that is a sentence; one of the two it has always."""
    for row in TABLE:
        assert row.flag or row.variable
        for missing, why in ((row.flag, row.no_flag), (row.variable, row.no_variable)):
            assert missing is not None or len(why.split()) > 5


def test_limits_and_retention_come_from_their_own_tables() -> None:
    """HS-2.1, EV-2.4: constructor, flag and variable of a number are those of one row, and so is its default."""
    for own, made, of in ((SETTINGS, ServiceLimits(), TOWER), (RETENTION_SETTINGS, Retention(), SUPERVISE)):
        for setting in own:
            row = settings.row_of(of, setting.name)
            assert row.number is setting
            assert (row.flag, row.variable) == (setting.flag, setting.env)
            assert row.default == getattr(made, setting.name)


def test_names_that_others_read_too() -> None:
    """CT-9.11: what a library, a driver or the adapter's program reads by itself has the same name there."""
    assert settings.row_of(TOWER, "matrix").variable == MATRIX_VARIABLE
    assert settings.row_of(ADAPTER, "client_file").variable == CLIENT_FILE_VARIABLE
    assert settings.row_of(SERVE, "http_access_log").variable == ACCESS_LOG_VARIABLE
    assert settings.row_of(SUPERVISE, "probe_uid").variable == PROBE_UID_VARIABLE
    assert settings.row_of(SUPERVISE, "probe_uid").default == DEFAULT_PROBE_UID
    with pytest.raises(KeyError):
        settings.row_of(SERVE, "store")


def test_nothing_listens_beyond_this_machine_unless_asked() -> None:
    """SEC-05, CT-2.1, RA-8.4: each address that is a default is loopback, and no other listener is there by default."""
    rows = [row for row in TABLE if row.kind in {Kind.HOST, Kind.LISTEN, Kind.LOOPBACK}]
    assert {row.name for row in rows} == {"host", "listen", "probe_listen"}
    assert {str(row.default).partition(":")[0] for row in rows} == {"127.0.0.1", "None"}
    assert {row.name for row in rows if row.default is None} == {"probe_listen"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_is_the_parsers(command: str) -> None:
    """CT-9.11: the parser of a command, and that of ``config show`` for it, has each flag of the table."""
    given = {row.name: text_of(row)[0] for row in rows_of(command) if row.flag is not None}
    words = [f"{row.flag}={given[row.name]}" for row in rows_of(command) if row.flag is not None]
    target = ["."] if command == SERVE else []
    for line in ([command, *words, *target], ["config", "show", command, *words]):
        stored = flags_of(command, build_parser().parse_args(line))
        assert {name: str(value) for name, value in stored.items()} == given


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_every_variable(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """CT-9.11: what has no flag is found in ``--help`` too."""
    with pytest.raises(SystemExit, match="0"):
        build_parser().parse_args([command, "--help"])
    told = capsys.readouterr().out
    flagless = [row.variable for row in rows_of(command) if row.flag is None]
    assert "IDKMESH_HTTP_ACCESS_LOG" in flagless
    assert [variable for variable in flagless if f"{variable} (" not in " ".join(told.split())] == []


# --- what is in force ------------------------------------------------------------------------------------------------

PAIRS = [(command, row) for command in COMMANDS for row in rows_of(command)]


@pytest.mark.parametrize(("command", "row"), PAIRS, ids=lambda each: getattr(each, "name", each))
def test_the_flag_wins_over_the_variable_over_the_default(command: str, row: settings.CommandSetting) -> None:
    """CT-9.11, HS-2.1: for each setting of each command; it says which of them it was."""
    beside = {"matrix": {"probe_listen": "[::1]:9"}, "tls_key": {"tls_cert": "c"}, "probe_uid": {"modules": "m"}}
    flags = beside.get(row.name, {})
    text, value = text_of(row)

    def found(given: dict[str, Any], environ: dict[str, str]) -> tuple[Any, Origin]:
        known = in_force(command, flags | given, environ).values[row.name]
        return known.value, known.origin

    assert found({}, {})[1] == Origin(Source.DEFAULT)
    if row.variable is not None:
        assert found({}, {row.variable: text}) == (value, Origin(Source.VARIABLE, row.variable))
    if row.flag is not None:
        wrong = {} if row.variable is None else {row.variable: "wrong"}
        assert found({row.name: text}, wrong) == (value, Origin(Source.FLAG, row.flag))


@pytest.mark.parametrize(
    ("command", "variable", "value", "told"),
    [
        (TOWER, "IDKMESH_PORT", "65536", "a port is a whole number from 0 to 65535"),
        (SERVE, "IDKMESH_PORT", "", "a port is a whole number from 0 to 65535"),
        (TOWER, "IDKMESH_RETRY_AFTER", "", "from 1 to 3600"),
        (ROUTER, "IDKMESH_PROBE_LISTEN", "9", "it must be ADDR:PORT"),
        (SUPERVISE, "IDKMESH_EVENT_RETENTION_AGE", "x", "from 60 to 315360000"),
        (ADAPTER, "IDKMESH_LISTEN", "0.0.0.0:1", "a loopback IPv4 address and a port"),
        (ADAPTER, "IDKMESH_NODE_ID", "a b", "begin with a letter or digit"),
    ],
)
def test_the_line_of_a_wrong_variable_names_it(command: str, variable: str, value: str, told: str) -> None:
    """CT-9.11: a person looks where the value stands."""
    with pytest.raises(SettingError, match=f"^{variable}: '{value}' is refused, .*{told}"):
        in_force(command, {}, {variable: value})


def test_an_empty_variable_is_not_given() -> None:
    """CT-9.11: as a deployment writes ``IDKMESH_MATRIX=${MATRIX:-}``; but numbers and ports have no empty form."""
    rows = [row for row in rows_of(TOWER) if row.variable and row.kind not in {Kind.NUMBER, Kind.PORT}]
    known = in_force(TOWER, {}, {str(row.variable): "" for row in rows})
    assert {known.values[row.name].origin for row in rows} == {Origin(Source.DEFAULT)}


@pytest.mark.parametrize(("flag", "name"), [("--matrix", "matrix"), ("--modules", "modules"), ("--router", "router")])
def test_an_empty_flag_is_refused(flag: str, name: str) -> None:
    """CT-9.11: a flag that a script has left empty was meant to say something."""
    with pytest.raises(SettingError, match=f"^{flag}: an empty value is refused$"):
        in_force(TOWER, {name: ""}, {})


def test_the_token_of_a_file_wins() -> None:
    """CT-2.5, CT-9.11: over the token of the variable, whether a flag or a variable names the file."""
    token = {"IDKMESH_CONTROL_TOWER_TOKEN": TOKEN}
    for flags, environ in (({"token_file": "f"}, token), ({}, token | {"IDKMESH_CONTROL_TOWER_TOKEN_FILE": "f"})):
        known = in_force(TOWER, flags, environ)
        assert (known["token"], known.values["token"].origin) == (None, Origin(Source.FILE, "f"))
    assert in_force(TOWER, {}, token)["token"] == TOKEN


def test_a_secret_in_place_of_its_file_is_not_shown() -> None:
    """CT-9.12: a key that stands in the variable itself is refused, and not repeated."""
    with pytest.raises(SettingError, match=r"^IDKMESH_TLS_KEY: a text of several lines is refused") as refused:
        in_force(SERVE, {}, {"IDKMESH_TLS_KEY": "-----BEGIN PRIVATE KEY-----\nSECRET\n"})
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize("value", ["tcp://10.0.0.1:8765", "udp://[fd00::1]:53"])
def test_what_a_cluster_says_of_a_service_named_idkmesh(value: str) -> None:
    """CT-9.12: its variables begin as ours do; the port is told of in a line, the others are no slips."""
    environ = {
        "IDKMESH_PORT": value,
        "IDKMESH_SERVICE_HOST": "10.0.0.1",
        "IDKMESH_SERVICE_PORT": "8765",
        "IDKMESH_SERVICE_PORT_HTTP": "8765",
        "IDKMESH_PORT_8765_TCP": value,
        "IDKMESH_PORT_8765_TCP_PROTO": "tcp",
        "IDKMESH_PORT_8765_TCP_ADDR": "10.0.0.1",
        "IDKMESH_NODE_PORT": value,
    }
    known = in_force(TOWER, {}, environ)
    assert (known["port"], known.values["port"].origin) == (8765, Origin(Source.DEFAULT))
    assert slips(environ, TOWER) == [
        "warning: IDKMESH_PORT is what a cluster says of a Service, and changes nothing; --port does"
    ]
    assert slips({"IDKMESH_NODE_PORT": "9000"}, TOWER) == [
        "warning: IDKMESH_NODE_PORT is no setting and changes nothing"
    ]


def test_slips() -> None:
    """HS-2.1, CT-9.11, CT-9.12: each variable of the table is known to every command; what only a flag says is told."""
    every = dict.fromkeys(filter(None, (row.variable for row in TABLE)), "1")
    for command in (*COMMANDS, None):
        told = slips(every | {"IDKMESH_DEP_DB": "a:1", "PATH": "x"}, command)
        expected = ["IDKMESH_CLIENT_FILE changes nothing for control-tower, --client-file does"]
        assert told == [f"warning: {line}" for line in (expected if command == TOWER else [])]
    assert slips({"IDKMESH_PORT_FILE": "x"}, SERVE) == ["warning: IDKMESH_PORT_FILE is no setting and changes nothing"]
    assert slips({"IDKMESH_MODULE": "x"}) == ["warning: IDKMESH_MODULE is no setting and changes nothing"]
    assert slips({"IDKMESH_MODULE": "x", "IDKMESH_INSTANCE": "x-1"}) == []


def test_a_user_without_modules_is_not_judged() -> None:
    """AR-3.2: nobody runs as this user then."""
    environ = {"IDKMESH_PROBE_UID": "nobody"}
    assert in_force(TOWER, {}, environ)["probe_uid"] == "nobody"
    with pytest.raises(SettingError, match=r"^IDKMESH_PROBE_UID: 'nobody' is refused"):
        in_force(TOWER, {"modules": "m"}, environ)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (ROUTER, "router needs --config FILE, or IDKMESH_ROUTER"),
        (SUPERVISE, "supervise needs --modules FILE, or IDKMESH_MODULES"),
        (ADAPTER, "readiness-adapter needs --node-id ID, or IDKMESH_NODE_ID"),
    ],
)
def test_what_a_command_cannot_do_without(
    command: str, told: str, environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """CT-9.11: one line that says both ways to give it, exit code 2."""
    assert main([command]) == 2
    assert capsys.readouterr().err == f"idkmesh: {told}\n"


def test_commands_take_their_variables(environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CT-9.11: a value of a variable reaches what it is for: each of these ends where its command would use it."""
    cases: list[tuple[Any, dict[str, str], str]] = [
        (lambda: control_tower({}, open_page=False), {"IDKMESH_ROUTER": "no.yaml"}, "no.yaml"),
        (lambda: control_tower({}, open_page=False), {"IDKMESH_CONTROL_TOWER_TOKEN_FILE": "no"}, "token file no"),
        (lambda: control_tower({}, open_page=False), {"IDKMESH_HOST": "192.0.2.1"}, "192.0.2.1"),
        (lambda: serve(".", {}), {"IDKMESH_HOST": "192.0.2.1", "IDKMESH_PORT": "9"}, "192.0.2.1:9"),
        (lambda: serve(".", {}), {"IDKMESH_TLS_CERT": "no.pem"}, "no.pem"),
        (lambda: route({}, check=False), {"IDKMESH_ROUTER": "no.yaml"}, "no.yaml"),
    ]
    environ.chdir(tmp_path)
    for run, variables, told in cases:
        with pytest.MonkeyPatch.context() as here:
            here.setenv("IDKMESH_STORE", str(tmp_path / "events.sqlite3"))
            for name, value in variables.items():
                here.setenv(name, value)
            with pytest.raises(CommandError, match=told):
                run()


def test_a_health_check_asks_where_the_tower_is(
    environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """HL-6.2, CT-9.11: in a container whose variables say the port, of a tower as of its check; the flag wins."""
    asked: list[str] = []

    def ask(url: str, _kind: str | None, _seconds: float) -> int:
        asked.append(url)
        return 0

    environ.setattr("idkmesh.commands.healthcheck.healthcheck", ask)
    environ.setenv("IDKMESH_PORT", "81")
    for words in ([], ["--port=82"], ["http://127.0.0.1:83"]):
        assert main(["healthcheck", *words]) == 0
    assert asked == ["http://127.0.0.1:81", "http://127.0.0.1:82", "http://127.0.0.1:83"]
    environ.setenv("IDKMESH_PORT", "http")
    assert main(["healthcheck"]) == 2
    assert capsys.readouterr().err.startswith("idkmesh: IDKMESH_PORT: 'http' is refused")
    environ.setenv("IDKMESH_PORT", "tcp://10.0.0.1:80")
    assert value_of(TOWER, "port", os.environ) == 8765


# --- config show -----------------------------------------------------------------------------------------------------


def lines_of(text: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()}


def test_each_value_and_where_it_came_from(
    environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """CT-9.13: a line for each setting of the command, with its unit, in columns; a flag is told as a flag."""
    environ.setenv("IDKMESH_PORT", "81")
    environ.setenv("IDKMESH_MATRIX", "matrix.yaml")
    environ.setenv("IDKMESH_STORE", str(tmp_path / "e"))
    words = ["config", "show", TOWER, "--drain-timeout=2.5", "--probe-listen=[::1]:9", "--port-file=p"]
    assert main(words) == 0
    told = capsys.readouterr()
    lines = lines_of(told.out)
    assert told.err == ""
    assert list(lines) == ["SETTING", *(row.name for row in rows_of(TOWER))]
    assert lines["port"] == ["81", "variable", "IDKMESH_PORT"]
    assert lines["matrix"] == ["matrix.yaml", "variable", "IDKMESH_MATRIX"]
    assert lines["store"] == [str(tmp_path / "e"), "variable", "IDKMESH_STORE"]
    assert lines["drain_timeout"] == ["2.5", "s", "flag", "--drain-timeout"]
    assert lines["probe_listen"] == ["[::1]:9", "flag", "--probe-listen"]
    assert lines["max_header_bytes"] == ["262144", "bytes", "default"]
    assert lines["http_access_log"] == ["off", "default"]
    assert lines["modules"] == ["-", "default"]
    origins = [line.index("default") for line in told.out.splitlines() if line.endswith("default")]
    assert len(set(origins)) == 1


def test_of_all_commands(environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """CT-9.13: without a command every setting, where commands differ a line for each value; what is needed is said."""
    environ.setenv("IDKMESH_MODULES", "m.yaml")
    environ.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["config", "show"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["port", "8765", "default", "control-tower"] in lines
    assert ["port", "8000", "default", "serve"] in lines
    assert ["modules", "m.yaml", "variable", "IDKMESH_MODULES", "control-tower,", "supervise"] in lines
    assert ["node_id", "-", "needed:", "--node-id", "readiness-adapter"] in lines
    assert ["store", str(tmp_path / "idkmesh" / "events.sqlite3"), "default", "control-tower,"] == lines[
        [line[0] for line in lines].index("store")
    ][:4]
    assert {line[0] for line in lines[1:]} == {row.name for row in TABLE}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["--json", TOWER], [TOWER, "--json"], ["--json"]])
def test_the_document(words: list[str], environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """CT-9.13: as ``settings.json`` says, for one command or for all; ``--json`` stands before or after the name."""
    environ.setenv("IDKMESH_PORT", "81")
    assert main(["config", "show", *words]) == 0
    document = json.loads(capsys.readouterr().out)
    schema = json.loads((ROOT / "idkmesh" / "schemas" / "settings.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)
    assert [one["command"] for one in document["commands"]] == ([TOWER] if TOWER in words else list(COMMANDS))
    (found,) = (one for one in document["commands"][0]["settings"] if one["name"] == "port")
    assert found["value"] == 81
    assert found["origin"] == {"source": "variable", "name": "IDKMESH_PORT"}


def test_no_secret_is_shown(environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """CT-9.13: of a token, whether one is set, and by what; neither variable nor file is repeated."""
    file = tmp_path / "token"
    file.write_text(TOKEN + "-of-the-file")
    environ.setenv("IDKMESH_CONTROL_TOWER_TOKEN", TOKEN)
    for words, line in (
        ([TOWER], ["set", "variable", "IDKMESH_CONTROL_TOWER_TOKEN"]),
        ([TOWER, f"--token-file={file}"], ["set", "file", str(file)]),
    ):
        assert main(["config", "show", *words]) == main(["config", "show", "--json", *words]) == 0
        out = capsys.readouterr().out
        assert lines_of(out)["token"] == line
        assert TOKEN not in out
    environ.delenv("IDKMESH_CONTROL_TOWER_TOKEN")
    assert main(["config", "show", TOWER]) == 0
    assert lines_of(capsys.readouterr().out)["token"][0] == "random"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (TOWER, ["--port=65536"]),
        (TOWER, ["--max-connections=20"]),
        (TOWER, ["--matrix="]),
        (SERVE, ["--matrix=m"]),
        (SERVE, ["--probe-listen=9"]),
        (SERVE, ["--tls-key=k"]),
        (SUPERVISE, ["--event-retention-count=1"]),
        (ROUTER, ["--config="]),
        (ADAPTER, ["--node-id=a b"]),
        (ADAPTER, ["--listen=0.0.0.0:1"]),
        (ADAPTER, ["--nothing"]),
    ],
)
def test_what_is_refused(
    command: str, words: list[str], environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """CT-9.13: in the words of the command itself, and exit code 2."""
    assert main(["config", "show", command, *words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert main([command, *words, *(["."] if command == SERVE else [])]) == 2
    own = capsys.readouterr().err
    assert told.err.replace("config show ", "") == own
    assert own.count("\n") == 1


def test_what_one_command_refuses_hides_no_other(
    environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """CT-9.13: a setting that lacks another beside it is a line; of all every setting is shown, and the code is 0."""
    environ.setenv("IDKMESH_MATRIX", "m.yaml")
    assert main(["config", "show", SERVE]) == 2
    own = capsys.readouterr().err
    assert main(["config", "show"]) == 0
    told = capsys.readouterr()
    needed = "--probe-listen ADDR:PORT: no path of the program is answered for it"
    assert told.err == own == f"idkmesh: serve: IDKMESH_MATRIX needs {needed}\n"
    lines = [line.split() for line in told.out.splitlines()]
    assert ["matrix", "m.yaml", "variable", "IDKMESH_MATRIX", "control-tower,", "serve"] in lines
    assert {line[0] for line in lines[1:]} == {row.name for row in TABLE}
    found = document_of_all(capsys)
    assert found[SERVE]["refused"] in own
    assert len(found[SERVE]["settings"]) == len(rows_of(SERVE))
    assert [command for command, one in found.items() if one["refused"]] == [SERVE]


def test_a_value_that_some_refuse(environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """CT-9.13: a line names all who refuse it, their settings are not shown, those of the others are."""
    environ.setenv("IDKMESH_PORT", "99999")
    assert main(["config", "show"]) == 0
    told = capsys.readouterr()
    refused = "IDKMESH_PORT: '99999' is refused, a port is a whole number from 0 to 65535"
    assert told.err == f"idkmesh: {TOWER}, {SERVE}: {refused}\n"
    shown = {row.name for command in COMMANDS if command not in {TOWER, SERVE} for row in rows_of(command)}
    assert {line.split()[0] for line in told.out.splitlines()[1:]} == shown
    found = document_of_all(capsys)
    assert {command: one["refused"] for command, one in found.items()} == {
        command: refused if command in {TOWER, SERVE} else None for command in COMMANDS
    }
    assert found[TOWER]["settings"] == found[SERVE]["settings"] == []


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_where_nothing_can_be_shown(
    words: list[str], environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """CT-9.13: where every command refuses a value there is nothing to see, and the exit code is 2."""
    environ.setenv("IDKMESH_EVENT_RETENTION_COUNT", "x")
    environ.setenv("IDKMESH_MAX_CONNECTIONS", "x")
    environ.setenv("IDKMESH_NODE_ID", "a b")
    assert main(["config", "show", *words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert all(
        any(f"{command}: " in line or f"{command}, " in line for line in told.err.splitlines()) for command in COMMANDS
    )


def document_of_all(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return what the document says of each command; it is as its schema says."""
    assert main(["config", "show", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    schema = json.loads((ROOT / "idkmesh" / "schemas" / "settings.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(document)
    return {one["command"]: one for one in document["commands"]}


def test_a_slip_is_told_beside_the_settings(environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """CT-9.13, HS-2.1: who looks for a value that has no effect finds the slip."""
    environ.setenv("IDKMESH_MAX_BODY_BYTE", "5")
    assert main(["config", "show", SERVE]) == 0
    assert capsys.readouterr().err == "idkmesh: warning: IDKMESH_MAX_BODY_BYTE is no setting and changes nothing\n"


def test_a_name_of_a_file_adds_no_line(environ: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """CT-9.5, CT-9.13: what does not print is shown escaped."""
    assert main(["config", "show", TOWER, "--port-file=a\nb\x1b[2J"]) == 0
    out = capsys.readouterr().out
    assert "a\\nb\\x1b[2J" in out
    assert len(out.splitlines()) == len(rows_of(TOWER)) + 1


def test_the_document_is_made_of_values() -> None:
    """CT-9.13: what is printed is a function of what is in force."""
    known = [in_force(command, {}, {"IDKMESH_STORE": "s"}) for command in COMMANDS]
    looked = [Looked(given.command, tuple(given.values.values())) for given in known]
    assert len(settings_document(looked)["commands"]) == len(COMMANDS)
    assert len(table_of_all(looked)) > len({row.name for row in TABLE})


def test_the_table_loads_no_server() -> None:
    """CT-9.13: a look at settings, and ``--help``, import neither the server nor YAML."""
    code = (
        # What measures coverage has begun in this process already, and has a database of its own.
        "import sys; before = set(sys.modules); import idkmesh.cli as cli; cli.main(['config', 'show', 'serve']); "
        "print([name for name in ('idkmesh.httpd', 'yaml', 'sqlite3') if name in sys.modules.keys() - before])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
