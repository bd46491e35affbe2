"""SIGHUP reads the probe matrix again, in processes and in parts."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from idkmesh.commands.reload_signal import ReloadSignal
from idkmesh.topology.projection import PATH
from tests.functional.health_support import TOKEN, matrix_text, probed
from tests.functional.router_support import Site, routing
from tests.functional.support import PATIENCE, until

if TYPE_CHECKING:
    from pathlib import Path

NEW = "n3w-token-of-the-test-suite-0123456789"
LISTEN = "--probe-listen=127.0.0.1:0"


def test_a_good_file_and_a_bad_one(tmp_path: Path) -> None:
    """HL-3.5, HL-5.4: what is declared as before keeps its state; a bad file changes nothing and is one line."""
    file = tmp_path / "m.yaml"
    with socket.create_server(("127.0.0.1", 0), backlog=64) as up:
        port = up.getsockname()[1]
        file.write_text(matrix_text(db=port))
        store = f"--store={tmp_path / 'e.sqlite3'}"
        with probed("control-tower", "--port=0", store, f"--matrix={file}", LISTEN) as service:
            host = f"127.0.0.1:{service.port}"
            service.wait_for("/readyz", 200)
            before = json.loads(service.get("/api/v1/dependencies/db", probe=False, host=host)[1])
            file.write_text(matrix_text(db=port, gone=1))
            service.process.send_signal(signal.SIGHUP)
            line = service.wait_for_line("was read again")
            assert line == "the probe matrix was read again: 1 kept, 0 changed, 1 added, 0 removed\n"
            service.wait_for("/readyz", 503)
            after = json.loads(service.get("/api/v1/dependencies/db", probe=False, host=host)[1])
            assert after["since"] == before["since"]

            file.write_text(matrix_text(db=port) + "one: 1\ntwo: 2\n")
            service.process.send_signal(signal.SIGHUP)
            line = service.wait_for_line("refused, the running one stays")
            assert f"the running one stays: {file}:10:1: " in line
            assert line.endswith("(and 1 more)\n")
            listed = json.loads(service.get("/api/v1/dependencies", probe=False, host=host)[1])
            assert [item["name"] for item in listed["items"]] == ["db", "gone"]
            query = "/api/v1/events?type=idkmesh.matrix."
            # They are written in the order in which they came, and a moment after the line.
            until(lambda: json.loads(service.get(query + "refused", probe=False, host=host)[1])["items"])
            (reloaded,) = json.loads(service.get(query + "reloaded", probe=False, host=host)[1])["items"]
            assert (reloaded["data"]["kept"], reloaded["data"]["added"]) == (1, 1)
            (refused,) = json.loads(service.get(query + "refused", probe=False, host=host)[1])["items"]
            assert (refused["data"]["line"], refused["data"]["findings"]) == (10, 2)
            assert TOKEN not in "".join(service.errors)
            assert service.end() == 0


def test_a_program_that_is_served_takes_it_too(tmp_path: Path) -> None:
    """HL-3.5: many signals while it serves, and it goes on and ends as ever."""
    (tmp_path / "m.yaml").write_text(matrix_text())
    with probed("serve", ".", "--port=0", "--matrix=m.yaml", LISTEN, cwd=tmp_path) as service:
        service.wait_for("/readyz", 200)
        (tmp_path / "m.yaml").write_text(matrix_text(db=1))
        for _ in range(20):
            service.process.send_signal(signal.SIGHUP)
        service.wait_for("/readyz", 503)
        assert service.get("/livez") == (200, b"ok")
        assert service.end() == 0


@pytest.mark.parametrize("tower", [False, True])
def test_a_router_takes_its_credentials_anew(tmp_path: Path, tower: bool) -> None:
    """RT-9.11: alone and in a tower: the new token counts, the old one no more, and it goes on."""
    site = Site(tmp_path)
    with routing(site, tower=tower) as service:
        assert service.ask("GET", PATH).status == 200
        part = tmp_path / "part"
        part.write_text(NEW)
        part.chmod(0o600)
        part.replace(site.token_file)
        service.process.send_signal(signal.SIGHUP)
        line = "the router's credentials were read again: 0 kept, 1 with another token, 0 added, 0 removed\n"
        until(lambda: line in service.lines)
        assert service.ask("GET", PATH).status == 403
        assert service.ask("GET", PATH, token=NEW).status == 200
        site.config.write_text("one: 1\n")
        service.process.send_signal(signal.SIGHUP)
        service.wait_for_line("refused, the running credentials stay: ")
        assert service.ask("GET", PATH, token=NEW).status == 200
        assert service.end() == 0
        assert NEW not in "".join(service.lines)


def test_an_early_signal_is_not_lost() -> None:
    """HL-3.5: one that comes before there is anything to reload is answered as soon as there is."""
    before = signal.getsignal(signal.SIGHUP)
    calls: list[str] = []
    with ReloadSignal() as reloads:
        os.kill(os.getpid(), signal.SIGHUP)
        reloads.attach(lambda: calls.append(threading.current_thread().name))
        until(lambda: calls == ["reload"])
    assert signal.getsignal(signal.SIGHUP) is before


def test_a_descriptor_beyond_those_of_select() -> None:
    """HL-3.5: a process that holds more than a thousand files is reloaded as well."""
    with contextlib.ExitStack() as held:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2048)), hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            held.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        calls: list[int] = []
        with ReloadSignal() as reloads:
            reloads.attach(lambda: calls.append(1))
            os.kill(os.getpid(), signal.SIGHUP)
            until(lambda: calls == [1])
    assert calls == [1]


def test_a_slow_reading_holds_nobody_up() -> None:
    """HL-3.5: the handler returns at once, and a signal that comes during a reading makes another one."""
    reading, go_on = threading.Event(), threading.Event()
    calls: list[int] = []

    def reload() -> None:
        calls.append(1)
        reading.set()
        assert go_on.wait(PATIENCE)

    with ReloadSignal() as reloads:
        reloads.attach(reload)
        os.kill(os.getpid(), signal.SIGHUP)
        assert reading.wait(PATIENCE)
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGHUP)
        assert len(calls) == 1
        go_on.set()
        until(lambda: len(calls) == 2)
    assert len(calls) == 2
