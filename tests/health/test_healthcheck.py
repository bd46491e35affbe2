"""`idkmesh healthcheck`: how answers are judged, and what real servers, hostile ones too, make of the exit code."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.cli import main
from idkmesh.commands.healthcheck import PATHS, Target, judge, parse_target
from idkmesh.console import CommandError
from idkmesh.health.answers import draining_answer, liveness_answer, probe_document, readiness_answer, startup_answer
from idkmesh.health.middleware import HealthMiddleware
from idkmesh.health.model import File
from idkmesh.health.readiness import Readiness
from idkmesh.httpd import BoundedWSGIServer
from idkmesh.service_runtime import ServiceIdentity
from tests.events.support import ROOT
from tests.health.certificates import authority_pem, server_context
from tests.health.support import dependency, matrix_of, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

IDENTITY = ServiceIdentity(service="s", service_version="1")
READY = json.dumps(probe_document(IDENTITY, "ready")).encode()


# --- the decision -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "code", "line"),
    [
        (200, b"ok", 0, "ok"),
        (503, b"stalled", 1, "stalled"),
        (200, READY, 0, "ready"),
        (200, readiness_answer(IDENTITY, Readiness("ready", (), ("a", "b"))).body, 0, "ready; warnings: a, b"),
        (503, readiness_answer(IDENTITY, Readiness("not_ready", ("a",))).body, 1, "not_ready; failing: a"),
        (
            503,
            readiness_answer(IDENTITY, Readiness("starting", ("a",), ("b",))).body,
            1,
            "starting; failing: a; warnings: b",
        ),
        (200, startup_answer(IDENTITY, Readiness("not_ready", ("a",))).body, 0, "started"),
        (503, draining_answer().body, 1, "shutting_down"),
        (200, b'{"status":"live"}', 0, "live"),
        (503, b'{"status":"not_live"}', 1, "not_live"),
        (503, b'{"status":"not_ready","failing":["a"],"failing_total":"x"}', 1, "not_ready; failing: a"),
        (503, b'{"status":"not_ready","failing":[1,"a",null],"warnings":"x"}', 1, "not_ready; failing: a"),
    ],
)
def test_answers_of_a_probe_path(status: int, body: bytes, code: int, line: str) -> None:
    """HL-6.2: yes is 0 and no is 1; the line is the status and the names."""
    assert judge(status, body) == (code, line)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"stalled"),
        (503, b"ok"),
        (200, b""),
        (200, b"OK"),
        (200, b"ok\n"),
        (204, b""),
        (302, b"ok"),
        (404, b"not found"),
        (503, READY),
        (200, b'{"status":"not_ready"}'),
        (200, b'{"status":["ready"]}'),
        (503, b'{"status":["not_ready"]}'),
        (200, b'["ready"]'),
        (200, b"null"),
        (503, b'{"error":{"code":"overloaded"}}'),
        (503, b'{"error":"shutting_down"}'),
        (502, draining_answer().body),
        (500, liveness_answer(alive=True).body),
        (200, b"[" * 60_000),
        (200, b"\xff\xfe"),
    ],
)
def test_answers_of_somebody_else(status: int, body: bytes) -> None:
    """HL-6.2: what no probe path answers is neither yes nor no."""
    code, line = judge(status, body)
    assert code == 3
    assert str(status) in line


def test_a_long_list_is_one_line() -> None:
    """HL-6.2: of a thousand names the first are shown, and how many there are besides."""
    names = tuple(f"dependency-{number}" for number in range(1000))
    line = judge(503, readiness_answer(IDENTITY, Readiness("not_ready", names)).body).line
    assert line.endswith("dependency-19, 980 more")


@pytest.mark.parametrize(
    ("url", "asked", "target"),
    [
        ("http://h", None, Target(tls=False, host="h", port=80, path="/readyz")),
        ("http://h/", "live", Target(tls=False, host="h", port=80, path="/livez")),
        ("https://h:8", "startup", Target(tls=True, host="h", port=8, path="/startupz")),
        ("http://[::1]:80/app/readyz?x=1#y", None, Target(tls=False, host="::1", port=80, path="/app/readyz?x=1")),
        ("HTTP://H?q", "ready", Target(tls=False, host="h", port=80, path="/readyz?q")),
    ],
)
def test_what_a_url_means(url: str, asked: str | None, target: Target) -> None:
    """HL-6.2: an origin gets the path that is asked for; a URL with a path is taken as it is."""
    assert parse_target(url, asked) == target


@pytest.mark.parametrize(
    "url",
    [
        "h:80",
        "ftp://h",
        "http://",
        "http:///readyz",
        "http://h:x",
        "http://h:99999",
        "http://h:0",
        "http://[::1",
        "http://[::1:8000]:x",
        "http://[::1:2:3:4:5:6:7:8000]",
        "http://[127.0.0.1]",
        "http://[h]:80",
        "http://a:80:80",
        "http://h!:80",
        "http://u:p@h",
        "http://h/ a",
        "http://h/\r\nHost: x",
        "http://ü",
        "",
    ],
)
def test_a_url_that_is_none(url: str) -> None:
    """HL-6.2: wrong usage is 2, and nothing of a URL with credentials is repeated."""
    with pytest.raises(CommandError) as caught:
        parse_target(url, None)
    assert caught.value.exit_code == 2
    assert "u:p" not in str(caught.value)


def test_a_path_and_a_flag() -> None:
    """HL-6.2: which of both would be meant cannot be told."""
    with pytest.raises(CommandError, match="--live is refused") as caught:
        parse_target("http://h/readyz", "live")
    assert caught.value.exit_code == 2


# --- against servers --------------------------------------------------------------------------------------------------


def program(environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"the program's own page"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "there"
    path.touch()
    return path


@pytest.fixture
def service(file: Path) -> Iterator[tuple[HealthMiddleware, int]]:
    """Give a WSGI program with the four paths behind a real server, and its port."""
    quick: dict[str, Any] = {"timeout_ms": 5000, "interval_ms": 50, "cache_ms": 20_000}
    rows = (dependency("db", probe=File(path=str(file)), **quick),)
    app = HealthMiddleware(program, matrix_of(*rows))
    with BoundedWSGIServer(("127.0.0.1", 0), app) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield app, server.server_port
        server.shutdown()
        thread.join()
    assert app.close()


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run the command in this process; return its exit code and what it printed to standard output."""
    code = main(["healthcheck", *arguments])
    return code, capsys.readouterr().out


def test_a_service(service: tuple[HealthMiddleware, int], file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-6.2: readiness by default, liveness and startup by their flags, a port or a URL; one line each."""
    app, port = service
    until(lambda: check(capsys, "--port", str(port)) == (0, "ready\n"), "it has not become ready")
    assert check(capsys, "--live", "--port", str(port)) == (0, "ok\n")
    assert check(capsys, "--startup", f"http://127.0.0.1:{port}") == (0, "started\n")
    assert check(capsys, f"http://localhost:{port}/readyz") == (0, "ready\n")
    assert check(capsys, f"http://127.0.0.1:{port}/page")[0] == 3
    file.unlink()
    until(lambda: check(capsys, "--port", str(port)) == (1, "not_ready; failing: db\n"), "the outage is not told")
    app.drain()
    assert check(capsys, "--ready", "--port", str(port)) == (1, "shutting_down\n")
    assert check(capsys, "--live", "--port", str(port)) == (0, "ok\n")


def test_no_proxy_is_used(
    service: tuple[HealthMiddleware, int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """HL-6.2: the variables of a proxy change nothing: its answer would not be the service's."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert check(capsys, "--live", "--port", str(service[1])) == (0, "ok\n")


def test_tls(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-6.2: a certificate that is not trusted says nothing of the service; one that is, is asked as any other."""
    app = HealthMiddleware(program, matrix_of())
    with BoundedWSGIServer(("127.0.0.1", 0), app, ssl_context=server_context(tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"https://127.0.0.1:{server.server_port}"
        code, line = check(capsys, url)
        assert (code, "certificate" in line.lower()) == (3, True)
        (tmp_path / "authority.pem").write_bytes(authority_pem())
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        assert check(capsys, url) == (0, "ready\n")
        server.shutdown()
        thread.join()
    assert app.close()


@contextlib.contextmanager
def answering(reply: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve one connection with ``reply``, and give the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):  # the listener is closed if nobody comes
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(65_536)
                    reply(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(30)
        assert not thread.is_alive()


def trickle(connection: socket.socket) -> None:
    """Send a byte of an endless head again and again: each comes long before any timeout of a single wait."""
    with contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        for _ in range(100):
            connection.sendall(b"x")
            time.sleep(0.1)


def held(release: threading.Event) -> None:
    release.wait(20)


def redirect(port: int) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{port}/livez\r\nContent-Length: 0\r\n\r\n".encode()


def test_the_deadline_is_a_total(capsys: pytest.CaptureFixture[str]) -> None:
    """HL-6.2: a server that sends a byte at a time is timed out as a silent one is."""
    with answering(trickle) as port:
        began = time.monotonic()
        assert check(capsys, "--timeout", "0.4", "--port", str(port)) == (
            1,
            f"no answer from 127.0.0.1:{port} within 0.4 s\n",
        )
        assert time.monotonic() - began < 6.0, "the bytes alone would take ten"
    release = threading.Event()
    with answering(lambda _: held(release)) as port:
        assert check(capsys, "--timeout", "0.2", "--port", str(port)) == (
            1,
            f"no answer from 127.0.0.1:{port} within 0.2 s\n",
        )
        release.set()


def test_no_redirect_is_followed(service: tuple[HealthMiddleware, int], capsys: pytest.CaptureFixture[str]) -> None:
    """HL-6.2: what is behind a redirect is not what was asked."""
    with answering(lambda connection: connection.sendall(redirect(service[1]))) as port:
        code, line = check(capsys, "--port", str(port))
    assert (code, "status 302" in line) == (3, True)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", 1),
        (b"SSH-2.0-x\r\n", 3),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_000_000, 3),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 0),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n", 3),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", 3),
    ],
    ids=["closed", "no HTTP", "large", "chunked", "bad chunks", "many fields"],
)
def test_answers_on_the_wire(data: bytes, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-6.2: nobody who answers is a no, what is no probe's answer cannot be told; one line, whatever came.

    Where nothing came that could be read, the line says who was asked.
    """
    with answering(lambda connection: connection.sendall(data)) as port:
        got, line = check(capsys, "--port", str(port))
    assert (got, line.count("\n")) == (code, 1)
    assert len(line) < 300
    assert (f"127.0.0.1:{port}" in line) is (code != 0 and "status 200" not in line)


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    """HL-6.2: a refused connection is a no, and it is said whom nobody answered for; an unknown name is no verdict."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    code, line = check(capsys, "--port", str(port))
    assert (code, line) == (1, f"no answer from 127.0.0.1:{port}: Connection refused\n")
    code, line = check(capsys, "http://no.such.host.invalid")
    assert (code, "no.such.host.invalid" in line) == (3, True)


@pytest.mark.parametrize("timeout", ["0", "0.0", "301", "-1", "1e1", "a", "", "nan"])
def test_a_timeout_that_is_none(timeout: str, capsys: pytest.CaptureFixture[str]) -> None:
    """HL-6.2: wrong usage is 2 and one line."""
    assert main(["healthcheck", "--timeout", timeout]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [("--live", "--ready"), ("--port", "1", "http://h"), ("a", "b"), ("--port", "0"), ("ftp://h",), ("",)]
)
def test_usage(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """HL-6.2: two questions, two addresses and no address are wrong usage."""
    assert main(["healthcheck", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_flags_are_the_paths() -> None:
    """HL-6.2: each kind of probe has its path."""
    from idkmesh.cli.healthcheck import PROBE_KINDS  # noqa: PLC0415  beside what it is held against

    assert tuple(PROBE_KINDS) == tuple(PATHS)


def unmeasured() -> dict[str, str]:
    """Return the environment without what makes a child measure its coverage, which takes longer than the command."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


def test_it_starts_fast() -> None:
    """HL-6.2: it is started every few seconds: 80 ms of processor time, three times that on a busy machine."""
    best = float("inf")
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "idkmesh", "healthcheck", "--port", "1"]
        subprocess.run(command, cwd=ROOT, check=False, env=unmeasured(), stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert best < 0.24


def test_it_imports_little() -> None:
    """HL-6.2: no server, no matrix, no YAML and no metrics are loaded to ask one question."""
    code = (
        "import sys, idkmesh.cli as cli; cli.main(['healthcheck', '--port', '1']); "
        "print([name for name in ('idkmesh.httpd', 'idkmesh.health', 'yaml', 'sqlite3', 'prometheus_client') "
        "if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=unmeasured(), check=True
    )
    assert done.stdout.splitlines()[1] == "[]"
