"""What the documents tell a reader to type works as it is written."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from idkmesh.health.matrix_file import read_matrix
from idkmesh.workloads.declaration import load_declaration
from scripts.bench.benchlib.processes import free_port
from tests.documents import ROOT, WAIT, answer, blocks_of, environment, running

HOWTO = ROOT / "docs" / "howto"
PAGES = (ROOT / "README.md", *sorted(HOWTO.glob("*.md")))
DOCKERFILE = (ROOT / "examples" / "Dockerfile").read_text(encoding="utf-8")


def typed() -> list[str]:
    """Return what README and how-to pages have a reader type, block for block, the README first."""
    return [block.text for path in PAGES for block in blocks_of(path) if block.language == "sh"]


def test_asking_a_probe_path() -> None:
    """HL-6.2: the README's second command asks the control tower that the first one started, and says yes."""
    assert "scripts/run healthcheck\n" in typed()
    port = free_port()
    with running([sys.executable, "-m", "idkmesh", "control-tower", "--port", str(port)]):
        assert answer(port, "/readyz", 200).status == 200
        command = [str(ROOT / "scripts" / "run"), "healthcheck", "--port", str(port)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ready\n")


def test_what_the_dockerfile_copies_is_enough(tmp_path: Path) -> None:
    """Rule: of what the example copies into its image the package can be built, and the matrix is there."""
    copied = [line.split() for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.MULTILINE)]
    for *names, to in copied:
        target = tmp_path / to.strip("/")
        for name in names:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                target.mkdir(exist_ok=True)
                shutil.copy(ROOT / name, target)
    assert "RUN pip install --no-cache-dir /src\n" in DOCKERFILE
    code = "import sys, hatchling.build as build; print(build.build_wheel(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(tmp_path)]
    subprocess.run(command, cwd=tmp_path / "src", check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert "idkmesh/cli/__init__.py" in zipfile.ZipFile(wheel).namelist()
    assert (tmp_path / "probe-matrix.yaml").is_file()


def test_the_health_check_of_the_dockerfile(tmp_path: Path) -> None:
    """HL-6.2, HL-3.4: what the image runs answers what its health check asks: liveness, by the matrix's figures."""
    dockerfile = DOCKERFILE.replace("\\\n", "")
    commands = [json.loads(found) for found in re.findall(r"CMD (\[.*\])$", dockerfile, re.MULTILINE)]
    serve, check = (command[1:] for command in commands)
    figures = read_matrix(ROOT / "examples" / "probe-matrix.yaml").orchestrator
    seconds = {
        "interval": figures.liveness.period_ms // 1000,
        "timeout": figures.liveness.timeout_ms // 1000 + 1,
        "start-period": figures.startup.period_ms * figures.startup.failure_threshold // 1000,
    }
    assert [name for name, value in seconds.items() if f"--{name}={value}s " not in dockerfile] == []
    assert f"--retries={figures.liveness.failure_threshold} " in dockerfile
    assert check == ["healthcheck", "--live", "--port", "9000"]
    page = " ".join((HOWTO / "health.md").read_text(encoding="utf-8").split())
    assert "`HEALTHCHECK CMD [" + json.dumps(["idkmesh", *check])[1:] + "`" in page

    port = str(free_port())
    assert serve[-1] == "0.0.0.0:9000"
    (tmp_path / "public").mkdir()
    shutil.copy(ROOT / "examples" / "probe-matrix.yaml", tmp_path)
    options = [*serve[:-1], f"127.0.0.1:{port}", "--port", str(free_port())]
    with running([sys.executable, "-m", "idkmesh", *options], tmp_path):
        assert answer(int(port), "/livez").status == 200
        command = [sys.executable, "-m", "idkmesh", *check[:-1], port]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ok\n")


def test_printing_a_stanza() -> None:
    """HL-6.3: the page's commands take the example's matrix: what they name is there."""
    (block,) = (block for block in typed() if "probes run" in block)
    for line in block.splitlines():
        command = [sys.executable, "-m", *line.split()]
        done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=WAIT)
        assert done.returncode in {0, 1, 3}  # the example's database is not here
        assert done.stdout
        assert done.stderr == ""


def test_the_modules_of_the_page() -> None:
    """AR-2.7: the declarations that the page names are taken; those that it has first need no platform."""
    named = re.findall(
        r"^idkmesh (modules check|control-tower|supervise) .*?(examples/\S+)", "\n".join(typed()), re.MULTILINE
    )
    assert [file for _, file in named] == ["examples/modules-local.yaml"] * 3
    for file, drivers in {
        "examples/modules-local.yaml": {"process"},
        "examples/modules.yaml": {"lxd", "process"},
    }.items():
        declared = load_declaration((ROOT / file).read_text(encoding="utf-8"), file)
        assert {module.driver for module in declared.modules} == drivers


def test_run_defaults_to_the_demo() -> None:
    """DM-6.1: `scripts/run`, the first command of the README, is the demo; `scripts/run ARGS` is `idkmesh ARGS`."""
    assert typed()[0] == "scripts/run\n"
    with running([str(ROOT / "scripts" / "run")]) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        assert lines[0].startswith("idkmesh demo: ")
        port = int(re.findall(r"http://127\.0\.0\.1:(\d+)/", lines[1])[0])
        assert answer(port).status == 200
    shown = subprocess.run([str(ROOT / "scripts" / "run"), "--help"], check=True, capture_output=True, text=True)
    assert "control-tower" in shown.stdout


def test_listing_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: `idkmesh events list` prints what a control tower has recorded."""
    assert "idkmesh events list\n" in typed()
    monkeypatch.setenv("IDKMESH_STORE", str(tmp_path / "events.sqlite3"))
    tower = [sys.executable, "-m", "idkmesh", "control-tower", "--port", "0"]
    with running(tower) as process:
        assert process.stdout is not None
        process.stdout.readline()
    done = subprocess.run(
        [sys.executable, "-m", "idkmesh", *["events", "list"]], check=True, capture_output=True, text=True
    )
    assert "idkmesh.server.started" in done.stdout
    assert "idkmesh.drain.ended" in done.stdout


def test_no_page_puts_a_token_on_a_command_line() -> None:
    """Rule: every user of a machine can read a command line, so that no page shows one with a bearer in an option."""
    option = re.compile(r"(?:-H|--header|--oauth2-bearer)[ =]*[\"']?(?:Authorization\b|\$)")
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "idkmesh").rglob("*.html")]
    assert [str(page) for page in pages if option.search(page.read_text(encoding="utf-8"))] == []


def command_lines() -> list[str]:
    """Return the command line of every process, as any user reads them; none where the system does not show them."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found.append(file.read_bytes().decode(errors="replace"))
    return found


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_reading_the_stream_with_curl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: the page's curl reads the stream until the tower drains; the variable's token is on no command line."""
    (command,) = (block for block in typed() if "curl -N" in block)
    token = "token-of-the-test-suite-0123456789abcdef"
    monkeypatch.setenv("IDKMESH_STORE", str(tmp_path / "events.sqlite3"))
    monkeypatch.setenv("IDKMESH_CONTROL_TOWER_TOKEN", token)
    port = free_port()
    tower = [sys.executable, "-m", "idkmesh", "control-tower", "--port", str(port)]
    with running(tower) as process:
        assert answer(port, "/healthz").status == 200
        shell = ["sh", "-c", command.replace("8765", str(port))]
        with subprocess.Popen(shell, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline().startswith(": ")
            seen = command_lines()
            assert any("/api/v1/events/stream" in line for line in seen) or not seen
            assert not any(token in line for line in seen)
            process.send_signal(signal.SIGTERM)
            rest = reader.stdout.read()
        process.wait(WAIT)  # a second signal would be one too many
    assert "idkmesh.drain.started" in rest
    assert rest.endswith('event: shutting_down\ndata: {"reason":"shutting_down"}\n\n')


def test_inspecting_a_request() -> None:
    """Rule: the page's pipe prints the verdict, and exits 1 because the request is refused."""
    (command,) = (block for block in typed() if "inspect-request" in block)
    done = subprocess.run(command, shell=True, env=environment(), check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert json.loads(done.stdout)["verdict"] == "refused"
    assert done.stderr == ""
