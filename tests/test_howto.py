"""Every block of the how-to pages is run as it stands, or judged by who would read it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import sys
import tomllib
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import check_jsonschema
import jsonschema
import kubernetes_validate
import pytest
import yaml

from idkmesh.cli import build_parser
from idkmesh.health.manifest import manifest
from idkmesh.health.matrix_file import read_matrix
from idkmesh.router.configuration import read_configuration
from idkmesh.workloads.declaration import load_declaration
from scripts.bench.benchlib.processes import free_port
from tests.documents import (
    ROOT,
    WAIT,
    Block,
    answer,
    answer_and_body,
    blocks_of,
    environment,
    running,
    shell,
)
from tests.functional.tls_support import certificate, client_context
from tests.httpd.test_notify import Supervisor, pairs
from tests.systemd import needs_systemd, verified

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Trial = Callable[[Block, Path], None]

FOLDER = ROOT / "docs" / "howto"
OLDER = ("ALERTS.md", "INSPECTION.md", "REHEARSAL.md")
"""Pages beside the folder. The readiness adapter's has its trials in ``tests/adapter/test_deployment.py``."""
READ = (ROOT / "README.md", *(FOLDER.parent / name for name in OLDER), *sorted(FOLDER.glob("*.md")))
PAGES = {path.name: blocks_of(path) for path in READ}
MATRIX = ROOT / "examples" / "probe-matrix.yaml"
GATED = ROOT / "deploy" / "readiness-adapter" / "kubernetes.yaml"


# --- programs --------------------------------------------------------------------------------------------------------


def program(block: Block, folder: Path) -> tuple[list[str], int]:
    """Write a program with a free port in place of its own; return the command and the port."""
    own = set(re.findall(r'\("127\.0\.0\.1", (\d{4})\)', block.text))
    (named,) = own
    port = free_port()
    (folder / "program.py").write_text(block.text.replace(named, str(port)), encoding="utf-8")
    shutil.copy(MATRIX, folder)
    return [sys.executable, "program.py"], port


def serves(*paths: tuple[str, int, str], ends: int = 0) -> Trial:
    """Return the trial of a program that answers each path with a status and some words."""

    def trial(block: Block, folder: Path) -> None:
        command, port = program(block, folder)
        with running(command, folder, ends):
            for path, status, words in paths:
                response, body = answer_and_body(port, path, status)
                assert (response.status, words in body.decode()) == (status, True)

    return trial


def serves_both_ways(target: str, *paths: tuple[str, int, str]) -> Trial:
    """Return the trial of a program that its page has served by ``idkmesh serve TARGET`` too, which imports it."""

    def trial(block: Block, folder: Path) -> None:
        serves(*paths)(block, folder)
        assert f"`idkmesh serve {target}`" in next(page for page in READ if page.name == block.page).read_text("utf-8")
        (folder / f"{target.partition(':')[0]}.py").write_text(block.text, encoding="utf-8")
        port = free_port()
        with running([sys.executable, "-m", "idkmesh", "serve", target, "--port", str(port)], folder):
            assert [answer(port, path, status).status for path, status, _ in paths] == [each[1] for each in paths]

    return trial


def takes_the_example(block: Block, folder: Path) -> None:
    """Copy the matrix as in a checkout; it is the one with which the programs of the page are tried."""
    (folder / "examples").mkdir()
    shutil.copy(MATRIX, folder / "examples")
    assert shell(block.text, folder).returncode == 0
    assert (folder / MATRIX.name).read_bytes() == MATRIX.read_bytes()


def serves_tls(block: Block, folder: Path) -> None:
    """Run the program with a certificate, and ask it with that as authority."""
    for name, pem in zip(("certificate.pem", "key.pem"), certificate(), strict=True):
        (folder / name).write_bytes(pem)
    command, port = program(block, folder)
    with running(command, folder):
        assert answer(port, tls=client_context()).status == 200


def runs_to_its_end(block: Block, folder: Path) -> None:
    """Run a program that ends by itself."""
    (folder / "program.py").write_text(block.text, encoding="utf-8")
    done = shell(f"{shlex.quote(sys.executable)} program.py", folder)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


def beats(block: Block, folder: Path) -> None:
    """Run the program as systemd does: it says that it is ready, and goes on saying that it lives."""
    command, port = program(block, folder)
    systemd = Supervisor(str(folder / "notify"))
    environ = environment(NOTIFY_SOCKET=systemd.address, WATCHDOG_USEC="1000000")
    systemd.socket.settimeout(WAIT)
    try:
        with running(command, folder, environ=environ):
            told = ""
            while told.count("WATCHDOG=1") < 2:
                told += systemd.socket.recv(4096).decode() + "\n"
            assert answer(port).status == 200
    finally:
        systemd.socket.close()
    assert told.startswith("READY=1")


# --- commands --------------------------------------------------------------------------------------------------------


def in_checkout(block: Block, _folder: Path) -> None:
    """Run commands at the root of a checkout; each prints what it is for."""
    for line in block.text.splitlines():
        done = shell(line)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout


def serves_the_folder(block: Block, folder: Path) -> None:
    """Run the command in a folder, on a free port."""
    (folder / "file.txt").write_text("content")
    port = free_port()
    command = [sys.executable, "-m", *shlex.split(block.text), "--port", str(port)]
    with running(command, folder):
        assert answer(port, "/file.txt").status == 200


def serves_django(folder: Path, line: str, *paths: tuple[str, int]) -> None:
    port = free_port()
    with running([sys.executable, "-m", *shlex.split(line), "--port", str(port)], folder):
        for path, status in paths:
            assert answer(port, path, status).status == status


def serves_with_probes(block: Block, folder: Path) -> None:
    """Serve a callable with the example's matrix: it is alive, and says that the example's database is not here."""
    (folder / "app.py").write_text("def app(_, start):\n    start('200 OK', [])\n    return []\n", encoding="utf-8")
    shutil.copy(MATRIX, folder)
    port, probes = free_port(), free_port()
    line = block.text.replace("0.0.0.0:9000", f"127.0.0.1:{probes}")
    with running([sys.executable, "-m", *shlex.split(line), "--port", str(port)], folder):
        assert answer(port).status == 200
        assert answer(probes, "/livez", 200).status == 200
        assert answer(probes, "/readyz", 503).status == 503


def supervises(block: Block, folder: Path) -> None:
    """Run commands of a checkout: the last one goes on until it is ended, with a store of its own."""
    *first, last = block.text.splitlines()
    for line in first:
        assert shell(line).returncode == 0
    port = ["--port", "0"] if "control-tower" in last else []
    command = [sys.executable, "-m", *shlex.split(last), *port, "--store", str(folder / "events.sqlite3")]
    with running(command) as process:
        assert process.stdout is not None
        told = ""
        while "events are kept in" not in told:
            line = process.stdout.readline()
            assert line, told
            told += line


def starts_a_project(block: Block, folder: Path) -> None:
    """Make the project and serve it: Django's own first page is there."""
    make, serve = block.text.splitlines()
    assert shell(make, folder).returncode == 0
    serves_django(folder, serve, ("/", 200))


def wsgi_of_the_project(block: Block, folder: Path) -> None:
    """Make the project, put the block in the place of its file, and serve it as the page says."""
    make, serve = PAGES[block.page][block.number - 1].text.splitlines()
    assert shell(make, folder).returncode == 0
    (folder / "mysite" / "wsgi.py").write_text(block.text, encoding="utf-8")
    shutil.copy(MATRIX, folder)
    serves_django(folder, serve, ("/", 200), ("/livez", 200), ("/readyz", 503))  # the example's database is not here


def inspects(name: str, number: int, *, matrix: bool = False) -> Trial:
    """Return the trial of a command that judges another block of its page, under a name: there is nothing to say."""

    def trial(block: Block, folder: Path) -> None:
        (folder / name).write_text(PAGES[block.page][number].text, encoding="utf-8")
        (folder / "examples").mkdir()
        shutil.copy(MATRIX, folder / "examples")
        done = shell(block.text, folder)
        assert (done.returncode, done.stderr) == (0, "")
        assert "0 findings" in done.stdout
        assert ("--matrix" in block.text) is matrix

    return trial


def gate(folder: Path, line: str) -> tuple[int, int]:
    """Run a step over manifests that are well, and over one that is not; return the exit codes."""
    (folder / "deploy").mkdir()
    shutil.copy(GATED, folder / "deploy")
    good = shell(line, folder)
    shutil.copy(ROOT / "examples" / "cart.yaml", folder / "deploy")
    return good.returncode, shell(line, folder).returncode


def is_a_gate(block: Block, folder: Path) -> None:
    """Run the command where there is an error and where there is none."""
    assert gate(folder, block.text) == (0, 1)


def inspects_the_examples(block: Block, folder: Path) -> None:
    """Run each command in a checkout, with a `helm` that gives an example: there are findings, or an explanation."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "helm").write_text("#!/bin/sh\ncat examples/cart.yaml\n", encoding="utf-8")
    (folder / "helm").chmod(0o755)
    environ = environment()
    environ["PATH"] = f"{folder}:{environ['PATH']}"
    for line in block.text.splitlines():
        done = shell(line, folder, environ)
        assert (done.returncode, done.stderr) == (0 if "--explain" in line else 1, ""), line
        assert ("PB103" in done.stdout) is not ("--explain" in line or ">" in line)
    assert json.loads((folder / "inspection.sarif").read_text(encoding="utf-8"))["version"] == "2.1.0"


FIGURES = """\
schema_version: "0.1"
kind: idkmesh-probe-matrix
orchestrator:
  startup:   {period_ms: 200, timeout_ms: 200, failure_threshold: 100}
  liveness:  {period_ms: 500, timeout_ms: 400, failure_threshold: 3}
  readiness: {period_ms: 500, timeout_ms: 400, failure_threshold: 2}
watchdog: {interval_ms: 500, max_missed_ticks: 5}
dependencies:
  - name: orders-db
    critical: true
    probe: {tcp: {host: 127.0.0.1, port: PORT}}
    timeout_ms: 300
    interval_ms: 500
    cache_ms: 1500
"""
"""A matrix whose outages are over in seconds."""


def rehearses(block: Block, folder: Path) -> None:
    """Rehearse the program of another page, with short figures and a dependency that is here: the contract is held."""
    (flask_program, *_) = PAGES["flask-and-django.md"]
    port = free_port()
    (folder / "app.py").write_text(flask_program.text.replace("8000", str(port)), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as database:
        text = FIGURES.replace("PORT", str(database.getsockname()[1]))
        (folder / "probe-matrix.yaml").write_text(text, encoding="utf-8")
        text = block.text.replace("8000", str(port)).replace("@5s..25s", "@5s..9s --for 15s")
        for line in text.splitlines():
            done = shell(line, folder)
            assert done.returncode == 0, done.stdout + done.stderr


def shown(block: Block, _folder: Path) -> None:
    """Leave what a command has once printed as it is: it is nothing to type."""
    assert block.language == "text"


def tried_by(path: str, name: str) -> Trial:
    """Return the trial of a block that a test elsewhere runs, on what is dear to start: that test is there."""

    def trial(_block: Block, _folder: Path) -> None:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert f"\ndef {name}(" in text

    return trial


# --- files -----------------------------------------------------------------------------------------------------------


def published(name: str, document: Any) -> None:
    """Judge a document by a schema that its readers publish."""
    schema = json.loads((files(check_jsonschema) / f"builtin_schemas/vendor/{name}.json").read_text(encoding="utf-8"))
    jsonschema.validators.validator_for(schema)(schema).validate(document)


def commands_are_ours(commands: list[list[str]]) -> None:
    for program_name, *arguments in commands:
        assert program_name == "idkmesh"
        build_parser().parse_args(arguments)


def deployment(block: Block, _folder: Path) -> None:
    """Have the cluster's own schema take it; its command is ours, and its probes are those of the matrix."""
    document = yaml.safe_load(block.text)
    kubernetes_validate.validate(document, "1.32", strict=True)
    pod = document["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    commands_are_ours([container["args"]])
    fits = yaml.safe_load(manifest(read_matrix(MATRIX), "kubernetes", port=9000))
    probes = ("startupProbe", "livenessProbe", "readinessProbe")
    assert {name: container[name] for name in probes} == {name: fits["containers"][0][name] for name in probes}
    hook = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    drain = int(container["args"][-1])
    assert pod["terminationGracePeriodSeconds"] == hook + drain + 5


def compose_file(block: Block, _folder: Path) -> None:
    """Compose's published schema takes it, its command is ours, and its health check is that of the matrix."""
    document = yaml.safe_load(block.text)
    published("compose-spec", document)
    app = document["services"]["app"]
    commands_are_ours([app["command"], app["healthcheck"]["test"][1:]])
    fits = yaml.safe_load(manifest(read_matrix(MATRIX), "compose", port=9000))["services"]["app"]
    assert {name: app[name] for name in fits} == fits


def unit(block: Block, folder: Path) -> None:
    """Systemd takes it, its command is ours, and its times are those of the matrix."""
    fits = pairs(manifest(read_matrix(MATRIX), "systemd", port=1))
    found = pairs(block.text)
    assert {name: found[name] for name in fits} == fits
    commands_are_ours([["idkmesh", *shlex.split(found["ExecStart"])[1:]]])
    if needs_systemd.args[0]:
        pytest.skip(needs_systemd.kwargs["reason"])
    (folder / "orders.service").write_text(block.text, encoding="utf-8")
    (folder / "copy").mkdir()
    assert verified([folder / "orders.service"], folder / "copy") == (0, "")


def scrape(block: Block, folder: Path) -> None:
    """Have Prometheus take it, with the rules beside it. The file of the token, which is not here, is not read."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    shutil.copy(ROOT / "deploy" / "prometheus" / "idkmesh.rules.yaml", folder)
    (folder / "prometheus.yaml").write_text(block.text, encoding="utf-8")
    done = shell("promtool check config --syntax-only prometheus.yaml", folder)
    assert done.returncode == 0, done.stderr
    assert "credentials_file" in block.text


def declared_modules(block: Block, folder: Path) -> None:
    """Read the declaration."""
    assert load_declaration(block.text, str(folder / "modules.yaml")).modules


def router_file(block: Block, folder: Path) -> None:
    """Read the configuration, with a token beside it."""
    (folder / "router.yaml").write_text(block.text, encoding="utf-8")
    token = folder / "router.token"
    token.write_text("0123456789abcdef" * 4)
    token.chmod(0o600)
    assert read_configuration(folder / "router.yaml").listen == ("127.0.0.1", 8780)


def workflow(schema: str, steps: Callable[[Any], list[str]]) -> Trial:
    """Return the trial of a pipeline: its published schema takes it, and its step with idkmesh is a gate."""

    def trial(block: Block, folder: Path) -> None:
        # `on` is a key, and no truth, to who reads the file.
        published(schema, yaml.load(block.text, Loader=yaml.BaseLoader))
        install, inspect = steps(yaml.safe_load(block.text))
        assert install == "pip install idkmesh"
        assert gate(folder, inspect) == (0, 1)
        found = json.loads((folder / "probes.sarif").read_text(encoding="utf-8"))
        assert found["version"] == "2.1.0"
        assert {each["ruleId"] for each in found["runs"][0]["results"]} >= {"PB103"}

    return trial


def github_steps(document: Any) -> list[str]:
    steps = document["jobs"]["inspect"]["steps"]
    assert steps[-1]["with"]["sarif_file"] in steps[-2]["run"]
    return [step["run"] for step in steps if "run" in step]


def gitlab_steps(document: Any) -> list[str]:
    job = document["probes"]
    assert job["artifacts"]["paths"][0] in job["script"][-1]
    found: list[str] = job["script"]
    return found


# --- the table -------------------------------------------------------------------------------------------------------

DOCUMENTS_TEST = "tests/test_documents.py"
ROUTER = "tests/functional/test_howto_router.py"
LXD = "tests/functional/test_lxd_supervise.py"

TRIALS: dict[str, list[Trial]] = {
    "README.md": [
        tried_by(DOCUMENTS_TEST, "test_run_defaults_to_the_demo"),
        tried_by(DOCUMENTS_TEST, "test_asking_a_probe_path"),
        serves_both_ways("hello:Hello", ("/", 200, "hello")),
        in_checkout,
        tried_by("tests/test_repository.py", "test_ci_runs_the_readmes_test_command"),
    ],
    "ALERTS.md": [scrape],
    "INSPECTION.md": [inspects_the_examples],
    "REHEARSAL.md": [rehearses, shown, shown, shown],
    "acceptance-script.md": [
        tried_by(ROUTER, "test_the_acceptance_script"),
        tried_by(ROUTER, "test_the_acceptance_script"),
    ],
    "compose.md": [in_checkout, compose_file, inspects("compose.yaml", 1)],
    "etcd.md": [
        declared_modules,
        tried_by(ROUTER, "test_a_lease_for_several_hosts"),
        router_file,
        tried_by(ROUTER, "test_registration_under_a_lease"),
        tried_by(ROUTER, "test_registration_under_a_lease"),
    ],
    "events.md": [
        tried_by(DOCUMENTS_TEST, "test_listing_events"),
        tried_by(DOCUMENTS_TEST, "test_reading_the_stream_with_curl"),
    ],
    "flask-and-django.md": [
        serves_both_ways("app:app", ("/", 200, "hello"), ("/livez", 200, "ok"), ("/readyz", 503, "orders-db")),
        takes_the_example,
        starts_a_project,
        wsgi_of_the_project,
    ],
    "health.md": [tried_by(DOCUMENTS_TEST, "test_printing_a_stanza"), serves_with_probes],
    "inspect-in-ci.md": [
        is_a_gate,
        workflow("github-workflows", github_steps),
        workflow("gitlab-ci", gitlab_steps),
    ],
    "kubernetes.md": [in_checkout, deployment, inspects("orders.yaml", 1, matrix=True)],
    "lxd-and-incus.md": [
        declared_modules,
        tried_by(LXD, "test_the_how_to_page"),
        tried_by(LXD, "test_the_how_to_page"),
    ],
    "prometheus-exporter.md": [
        serves(("/metrics", 200, "jobs_total"), ends=-15),
        serves(("/metrics", 200, "answer 42.0")),
    ],
    "replace-threadinghttpserver.md": [
        serves_both_ways("hello:Hello", ("/", 200, "hello")),
        runs_to_its_end,
        serves_tls,
        serves_the_folder,
        tried_by(DOCUMENTS_TEST, "test_inspecting_a_request"),
    ],
    "router.md": [tried_by(ROUTER, "test_the_page_of_the_router"), tried_by(ROUTER, "test_the_page_of_the_router")],
    "supervise-modules.md": [supervises, supervises],
    "systemd.md": [in_checkout, unit, beats],
}
"""How each block of each page is tried, in their order."""


def test_every_block_has_its_trial() -> None:
    """Rule: a page or a block that nobody tries fails here."""
    assert {page: len(trials) for page, trials in TRIALS.items()} == {
        page: len(blocks) for page, blocks in PAGES.items()
    }


@pytest.mark.parametrize(
    ("block", "trial"),
    [
        pytest.param(
            block,
            trial,
            id=f"{page}-{block.number}-{block.language}",
            marks=[pytest.mark.alone] if trial is rehearses else [],  # its verdict has bounds in time
        )
        for page, trials in TRIALS.items()
        for block, trial in zip(PAGES.get(page, []), trials, strict=False)
    ],
)
def test_a_block(block: Block, trial: Trial, tmp_path: Path) -> None:
    """Rule: what a how-to page tells to run runs as it stands; what it tells to write is taken by who reads it."""
    trial(block, tmp_path)


ELSEWHERE = {
    "CONTRIBUTING.md": "tests/test_repository.py",
    "docs/READINESS_ADAPTER.md": "tests/adapter/test_deployment.py",
    "docs/RELIABILITY.md": "tests/test_soak.py",
    "docs/reference/inspection.md": "tests/inspection/test_catalogue.py",
    "docs/reference/matrix.md": "tests/health/test_matrix_page.py",
    "docs/tutorial.md": "tests/functional/test_tutorial.py",
}
"""Documents whose blocks have their trials in a file of their own."""


def test_every_document_with_a_block_has_its_trials() -> None:
    """Rule: a document that begins to have something to type is tried too, here or where that is said."""
    every = (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    with_blocks = {path.relative_to(ROOT).as_posix() for path in every if blocks_of(path)}
    assert with_blocks == {path.relative_to(ROOT).as_posix() for path in READ} | set(ELSEWHERE)
    assert [test for test in ELSEWHERE.values() if not (ROOT / test).is_file()] == []


def typed_commands(path: Path) -> list[list[str]]:
    """Return each command of a document's shell blocks, in words; quotes keep what they hold together."""
    text = re.findall(r"^ *```sh\n(.*?)^ *```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    found = []
    for line in "".join(text).replace("\\\n", " ").splitlines():
        words: list[str] = []
        reader = shlex.shlex(line, punctuation_chars="|&;()<>", posix=True)
        reader.whitespace_split = True
        for word in [*reader, ";"]:
            if set(word) & set("|&;()<>"):
                found.append(words)
                words = []
            else:
                words.append(word)
    return [words for words in found if words]


DOCUMENTS = sorted(
    {ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")}
    - {FOLDER / "acceptance-script.md"}  # a program, and tried as one
)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_command_is_ours(path: Path) -> None:
    """Rule: what any document tells to type is a command of this version, with flags that it has."""
    for words in typed_commands(path):
        if words[0] == "idkmesh" or (words[0] == "scripts/run" and words[1:]):
            build_parser().parse_args(words[1:])
        elif words[0].startswith("scripts/"):
            assert (ROOT / words[0]).is_file()


def test_commands_are_found() -> None:
    """Rule: the test above looks at something: pipes, lists and indented blocks too."""
    found = [" ".join(words) for path in DOCUMENTS for words in typed_commands(path)]
    assert "idkmesh inspect -" in found
    assert "idkmesh inspect-request -" in found
    assert sum(line.startswith("idkmesh ") for line in found) > 40


def test_what_is_installed_is_an_extra() -> None:
    """Rule: an extra that a page names is one of the package's."""
    named = {extra for path in FOLDER.glob("*.md") for extra in re.findall(r"\[(\w+)\]'", path.read_text("utf-8"))}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"etcd", "lxd"} <= named <= set(project["optional-dependencies"])
