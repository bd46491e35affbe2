"""A second listener that answers the four probe paths and nothing else, beside a control tower and a program."""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.functional.health_support import PATHS, matrix_text, probed, refused
from tests.functional.support import PATIENCE, until

LISTEN = "--probe-listen=127.0.0.1:0"

PROGRAM = """\
import os, time

def app(environ, start_response):
    if environ["PATH_INFO"] == "/slow":
        open("asked", "w").close()
        for _ in range(3000):
            if os.path.exists("answer"):
                break
            time.sleep(0.01)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"program " + environ["PATH_INFO"].encode()]
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "m.yaml").write_text(matrix_text())
    return tmp_path


def serve(*more: str) -> tuple[str, ...]:
    return ("serve", "program:app", "--port=0", *more)


def one_line(errors: str) -> bool:
    return errors.count("\n") == 1 and "Traceback" not in errors


def test_a_program_has_probes_on_a_port_of_their_own(site: Path) -> None:
    """HL-5.6, HL-3.4, CT-4.1, PROBE-10: four paths, any Host, no token, GET and HEAD; everything else is 404."""
    with probed(*serve("--matrix=m.yaml", LISTEN), cwd=site) as service:
        assert "probes are answered on http://127.0.0.1:" in service.announced[0]
        assert service.wait_for("/readyz", 200)
        for path in PATHS:
            assert service.get(path, host="10.0.0.7:8080")[0] == 200
            assert service.get(path, method="HEAD") == (200, b"")
            assert service.get(path, method="POST")[0] == 405
        assert service.get("/livez")[1] == b"ok"
        document = json.loads(service.get("/readyz")[1])
        assert (document["status"], document["service"]) == ("ready", "idkmesh-serve")
        for path in ("/", "/metrics", "/api/v1/status", "/static/app.js", "/livez/", "//livez", "/%6civez", "/slow"):
            assert service.get(path)[0] == 404
        assert service.end() == 0


def test_no_path_is_answered_for_the_program(site: Path) -> None:
    """HS-10.6, HL-3.4: on its own port every path is the program's."""
    with probed(*serve(LISTEN), cwd=site) as service:
        for path in PATHS:
            assert service.get(path, probe=False) == (200, b"program " + path.encode())
        assert service.get("/livez") == (200, b"ok")
        assert service.end(signal.SIGINT) == 0


def test_the_tower_answers_on_both(tmp_path: Path) -> None:
    """HL-5.6: the same verdicts; what needs a token is not there at all."""
    store = f"--store={tmp_path / 'e.sqlite3'}"
    with probed("control-tower", "--port=0", store, LISTEN) as service:
        service.wait_for("/readyz", 200)
        for path in PATHS:
            assert service.get(path)[0] == service.get(path, probe=False)[0] == 200
        assert service.get("/api/v1/status")[0] == 404
        assert service.get("/api/v1/status", probe=False, host=f"127.0.0.1:{service.port}")[0] == 200
        assert service.end() == 0


def test_probes_tell_of_a_drain_and_close_last(site: Path) -> None:
    """HL-5.6, HL-1.2, CT-4.4: 503 shutting_down while a request is answered; liveness holds; then all is closed."""
    with probed(*serve(LISTEN), cwd=site) as service:
        slow: list[tuple[int, bytes]] = []
        asking = threading.Thread(target=lambda: slow.append(service.get("/slow", probe=False)))
        asking.start()
        until((site / "asked").exists)
        service.process.send_signal(signal.SIGTERM)
        document = json.loads(service.wait_for("/readyz", 503))
        assert document["error"]["code"] == "shutting_down"
        assert service.get("/startupz")[0] == 503
        assert service.get("/livez") == (200, b"ok")
        assert not slow, "the request is still out"
        (site / "answer").touch()
        asking.join(PATIENCE)
        assert slow == [(200, b"program /slow")]
        assert service.wait() == 0
        with pytest.raises(ConnectionRefusedError):
            service.get("/livez")


def test_silent_clients_do_not_hold_probes_up(site: Path) -> None:
    """HL-5.6, HS-8.1: two hundred that connect and say nothing give way to one that asks."""
    with probed(*serve(LISTEN), cwd=site) as service, contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", service.probe_port), PATIENCE))
        began = time.monotonic()
        assert service.get("/livez") == (200, b"ok")
        assert time.monotonic() - began < 5, "half of what a silent client may take"


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="lowers the limit of another process")
def test_clients_that_hold_all_descriptors_are_no_reason_to_restart(site: Path) -> None:
    """HS-4.9, HL-5.6: with none free the service takes nobody, and each probe is answered; then all is as before."""
    with probed(*serve("--matrix=m.yaml", LISTEN), cwd=site) as service:
        assert service.wait_for("/readyz", 200)
        assert service.get("/", probe=False)[0] == 200  # its loop runs, and has what it opens
        pid = service.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        most = max(int(each.name) for each in Path(f"/proc/{pid}/fd").iterdir()) + 8
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, before[1]))
        with contextlib.ExitStack() as clients:
            for _ in range(most):
                with contextlib.suppress(TimeoutError):  # the queue of those who wait for accept is full
                    clients.enter_context(socket.create_connection(("127.0.0.1", service.port), 0.2))
            assert service.wait_for_line("cannot accept").startswith("cannot accept a connection: Too many open files")
            for _ in range(50):
                assert service.get("/livez") == (200, b"ok")
                assert service.get("/startupz")[0] == 200
                assert service.get("/readyz")[0] in {200, 503}
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        until(lambda: service.get("/", probe=False)[0] == 200)
        assert service.end() == 0


def test_a_wedged_front_is_told_by_the_other_port(site: Path) -> None:
    """HL-1.2, HL-2.2, HL-5.6: a process whose front is stopped answers stalled, and says so in its log."""
    (site / "program.py").write_text(PROGRAM + WEDGE)
    (site / "m.yaml").write_text(matrix_text().replace("interval_ms: 1000, max", "interval_ms: 100, max"))
    with probed(*serve("--matrix=m.yaml", LISTEN), cwd=site) as service:
        service.wait_for("/livez", 200)
        with contextlib.suppress(OSError, http.client.HTTPException):
            service.get("/wedge", probe=False)
        assert service.wait_for("/livez", 503) == b"stalled"
        assert b'"failing":["process_watchdog"]' in service.wait_for("/readyz", 503)
        assert service.wait_for_line("stalled") == "stalled: front silent for too long\n"
        service.wait_for("/livez", 200)
        assert service.wait_for_line("no longer") == "no longer stalled: front\n"
        assert service.end() == 0


WEDGE = """
inner = app

def app(environ, start_response):
    if environ["PATH_INFO"] == "/wedge":
        import gc
        from idkmesh.httpd.front import Front
        front = next(each for each in gc.get_objects() if isinstance(each, Front) and each._application.channel is None
                     and type(each._application).__name__ == "WSGIRunner")
        turn = front._expire
        def expire(now):
            front._expire = turn
            time.sleep(3)
        front._expire = expire
        front.wake()
    return inner(environ, start_response)
"""


@pytest.mark.parametrize(
    "text",
    ["9000", "127.0.0.1", "127.0.0.1:", ":9000", "127.0.0.1:65536", "::1:9000", "http://a:1", "a b:1", "", "[]:1"],
)
def test_an_address_that_is_none(site: Path, text: str) -> None:
    """HL-5.6, CT-9.8: one line and exit code 2."""
    code, out, errors = refused(*serve(f"--probe-listen={text}"), cwd=site)
    assert (code, out) == (2, "")
    assert "--probe-listen" in errors
    assert one_line(errors)


def test_a_busy_port_is_one_line(site: Path) -> None:
    """HL-5.6, CT-9.3, CT-9.8: with the flag that has it; nothing is half started."""
    with socket.create_server(("127.0.0.1", 0)) as busy:
        listen = f"--probe-listen=127.0.0.1:{busy.getsockname()[1]}"
        for arguments in (serve(listen), ("control-tower", "--port=0", f"--store={site / 'e.sqlite3'}", listen)):
            code, out, errors = refused(*arguments, cwd=site)
            assert (code, out) == (1, "")
            assert "the port is in use; choose another with --probe-listen" in errors
            assert one_line(errors)


def test_other_machines_may_ask_and_are_warned_of(site: Path) -> None:
    """HL-5.6: allowed, for an orchestrator is another machine; a line says what they learn."""
    with probed(*serve("--probe-listen=0.0.0.0:0"), cwd=site) as service:
        line = service.wait_for_line("warning")
        assert (
            line == "idkmesh: warning: probes on 0.0.0.0 can be read from other machines: they name what is not well\n"
        )
        assert service.get("/livez")[0] == 200
        assert service.end() == 0


def test_serve_with_a_matrix_needs_a_probe_listener(site: Path) -> None:
    """HL-3.4, HS-10.6: one line and exit code 2, by flag and by variable."""
    given: list[tuple[tuple[str, ...], dict[str, str], str]] = [
        (serve("--matrix=m.yaml"), {}, "--matrix"),
        (serve(), {"IDKMESH_MATRIX": "m.yaml"}, "IDKMESH_MATRIX"),
    ]
    for arguments, env, name in given:
        code, out, errors = refused(*arguments, cwd=site, **env)
        assert (code, out) == (2, "")
        assert f"serve: {name} needs --probe-listen ADDR:PORT" in errors
        assert one_line(errors)


def test_variables_say_it_too(site: Path) -> None:
    """HL-3.4, HL-5.6, CT-9.8: IDKMESH_MATRIX and IDKMESH_PROBE_LISTEN are settings; a flag wins."""
    env: dict[str, Any] = {"IDKMESH_MATRIX": "nothing.yaml", "IDKMESH_PROBE_LISTEN": "127.0.0.1:0"}
    with probed(*serve("--matrix=m.yaml"), cwd=site, **env) as service:
        assert service.probe_port
        service.wait_for("/readyz", 200)
        assert service.end() == 0
    assert "warning" not in "".join(service.errors)


def test_a_matrix_that_is_refused_says_all_that_is_wrong(site: Path) -> None:
    """HL-3.2, HL-3.4: a line each with file, line and column, and exit code 2; no port opens."""
    (site / "bad.yaml").write_text(matrix_text(db=1).replace("critical: true", "critical: perhaps") + "extra: 1\n")
    for arguments in (serve("--matrix=bad.yaml", LISTEN), ("control-tower", "--port=0", "--matrix=bad.yaml")):
        code, out, errors = refused(*arguments, cwd=site)
        assert (code, out) == (2, "")
        first, second = errors.splitlines()
        assert first.startswith("idkmesh: bad.yaml:9:26: critical is text")
        assert second.startswith("idkmesh: bad.yaml:10:1: the file has an unknown key extra")


def test_a_database_that_comes_up_later(site: Path) -> None:
    """HL-1.1 to HL-1.3, HL-5.2: down at boot: started, alive, not ready, and no reason to restart."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    (site / "m.yaml").write_text(matrix_text(db=port))
    with probed(*serve("--matrix=m.yaml", LISTEN), cwd=site) as service:
        assert json.loads(service.wait_for("/startupz", 200))["status"] == "started"
        assert json.loads(service.get("/readyz")[1])["failing"] == ["db"]
        assert service.get("/livez") == (200, b"ok")
        assert service.wait_for_line("dependency db") == "dependency db (critical) is failing: refused\n"
        with socket.create_server(("127.0.0.1", port)):
            service.wait_for("/readyz", 200)
            until(lambda: "ready again\n" in service.errors)
        assert service.end() == 0
