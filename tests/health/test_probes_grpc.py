"""`grpc` against a real server with the health service of the package."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from idkmesh.health.model import Grpc
from idkmesh.health.probes import probe_for
from idkmesh.health.probes.grpc import system_roots
from tests.health.certificates import authority_pem, certificate
from tests.health.probe_support import (
    COULD_NOT_RUN,
    FAILED,
    OK,
    closed_port,
    descriptors,
    hangs,
    listening,
    said,
    serving,
    settled,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.health.probe_support import Said

grpc = pytest.importorskip("grpc")
health = importlib.import_module("grpc_health.v1.health")
messages = importlib.import_module("grpc_health.v1.health_pb2")
services = importlib.import_module("grpc_health.v1.health_pb2_grpc")


POOL = "grpc-server"
"""What the threads of the server's handlers are called."""


def threads_but_the_servers() -> set[threading.Thread]:
    """Return the threads that run, without those that the server adds whenever a call finds none of them idle."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith(POOL)}


@contextlib.contextmanager
def server(servicer: Any = None, credentials: Any = None) -> Iterator[tuple[str, Any]]:
    """Give ``HOST:PORT`` of a server, and its servicer."""
    servicer = servicer or health.HealthServicer()
    with ThreadPoolExecutor(4, thread_name_prefix=POOL) as pool:
        running = grpc.server(pool)
        services.add_HealthServicer_to_server(servicer, running)
        if credentials is None:
            port = running.add_insecure_port("127.0.0.1:0")
        else:
            port = running.add_secure_port("127.0.0.1:0", credentials)
        running.start()
        try:
            yield f"127.0.0.1:{port}", servicer
        finally:
            running.stop(0).wait(10)


class Blocking(services.HealthServicer):  # type: ignore[misc,name-defined]  # the package has no types
    """A servicer that answers when it may."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def Check(self, request: Any, context: Any) -> Any:
        self.gate.wait(10)
        return messages.HealthCheckResponse(status="SERVING")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("SERVING", (OK, "SERVING")),
        ("NOT_SERVING", (FAILED, "NOT_SERVING")),
        ("UNKNOWN", (FAILED, "UNKNOWN")),
        ("SERVICE_UNKNOWN", (FAILED, "SERVICE_UNKNOWN")),
    ],
)
@pytest.mark.parametrize("service", ["", "a.Service"])
def test_status(status: str, expected: Said, service: str) -> None:
    """HL-4.10: SERVING is well, any other status is told by its name."""
    with server() as (target, servicer):
        servicer.set(service, messages.HealthCheckResponse.ServingStatus.Value(status))
        assert said(Grpc(target=target, service=service)) == expected


def test_a_status_that_is_not_known() -> None:
    """HL-4.10: nor is a number well that the protocol does not have yet."""
    with server() as (target, servicer):
        servicer.set("", 42)
        assert said(Grpc(target=target)) == (FAILED, "no status known")


def test_a_service_that_is_not_there() -> None:
    """HL-4.10, HL-4.12: an error of the call is told by its name, without its text."""
    with server() as (target, _):
        assert said(Grpc(target=target, service="none")) == (FAILED, "NOT_FOUND")
    with ThreadPoolExecutor(1) as pool:
        bare = grpc.server(pool)
        port = bare.add_insecure_port("127.0.0.1:0")
        bare.start()
        assert said(Grpc(target=f"127.0.0.1:{port}")) == (FAILED, "UNIMPLEMENTED")
        bare.stop(0).wait(10)


def test_a_library_that_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.11: it is somebody else's code: where it misses its deadline it is abandoned."""
    gate, real = threading.Event(), grpc.insecure_channel
    monkeypatch.setattr(grpc, "insecure_channel", lambda *a, **o: (gate.wait(), real(*a, **o))[1])
    probe = probe_for(Grpc(target="127.0.0.1:1"))
    try:
        assert said(probe, 0.1) == (FAILED, "timeout")
        assert said(probe, 0.1) == (COULD_NOT_RUN, "still waiting")
        assert hangs(probe)
    finally:
        gate.set()
    assert settled(lambda: said(probe, 1) != (COULD_NOT_RUN, "still waiting"))


def test_without_a_spare_descriptor() -> None:
    """HL-4.2: gRPC would end the process, so it is not asked."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = probe_for(Grpc(target="127.0.0.1:1"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 4, hard))
    try:
        assert said(probe) == (COULD_NOT_RUN, "the machine is full")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("target", ["127.0.0.1:{port}", "localhost:{port}"])
def test_nobody_listens(target: str) -> None:
    """HL-4.10: a refused connection fails at once, and is tried anew by each run; a server that comes is seen."""
    probe = probe_for(Grpc(target=target.format(port=closed_port())))
    for _ in range(3):
        assert said(probe, 2) == (FAILED, "UNAVAILABLE")


def test_deadline() -> None:
    """HL-4.1: neither a server that does not answer, nor one that does not speak, keeps a run."""
    with server(Blocking()) as (target, servicer):
        probe = probe_for(Grpc(target=target))
        assert said(probe, 0.5) == (FAILED, "timeout")
        assert settled(lambda: not [thread for thread in threading.enumerate() if thread.name == "probe-grpc"])
        servicer.gate.set()
        assert said(probe) == (OK, "SERVING")
    with listening() as listener:
        assert said(Grpc(target=f"127.0.0.1:{listener.getsockname()[1]}"), 0.3) == (FAILED, "timeout")


def test_what_does_not_speak_grpc() -> None:
    """HL-4.10: a server of another protocol is not well."""
    with serving(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as (host, port):
        outcome, _ = said(Grpc(target=f"{host}:{port}"), 1)
    assert outcome is FAILED


def test_no_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.10: a proxy's health is not the dependency's."""
    for variable in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{closed_port()}")
    with server() as (target, servicer):
        servicer.set("", messages.HealthCheckResponse.SERVING)
        assert said(Grpc(target=target)) == (OK, "SERVING")


@pytest.mark.parametrize(
    ("name", "trust", "expected"),
    [
        ("127.0.0.1", True, (OK, "SERVING")),
        ("127.0.0.1", False, (FAILED, "UNAVAILABLE")),
        ("example.org", True, (FAILED, "UNAVAILABLE")),
    ],
)
def test_tls(name: str, trust: bool, expected: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.10: with TLS the certificate is verified, by the system's store and not by gRPC's own."""
    if trust:
        (tmp_path / "authority.pem").write_bytes(authority_pem())
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    chain, key = certificate(name)
    with server(credentials=grpc.ssl_server_credentials([(key, chain)])) as (target, servicer):
        servicer.set("", messages.HealthCheckResponse.SERVING)
        assert said(Grpc(target=target, tls=True), 3) == expected


def test_the_store_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HL-4.10: it is one file or a folder of files under their hashes; without any there is nothing to verify with."""
    folder = tmp_path / "certs"
    folder.mkdir()
    (folder / "0123abcd.0").write_bytes(b"one\n")
    (folder / "0123abcd.1").write_bytes(b"two\n")
    (folder / "one.pem").write_bytes(b"one\n")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    assert system_roots() == b"one\ntwo\n"
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    assert system_roots() is None
    assert said(Grpc(target="127.0.0.1:1", tls=True)) == (COULD_NOT_RUN, "no certificates on this system")


@pytest.mark.parametrize(
    ("loaded", "detail"),
    [(None, "needs the extra grpc"), (RuntimeError, "the extra grpc does not load: RuntimeError")],
)
def test_without_the_extra(
    loaded: type[Exception] | None, detail: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HL-4.2, HL-4.10: a program that does not have it, or has one that does not fit, is told so."""
    if loaded is None:
        monkeypatch.setitem(sys.modules, "grpc", None)
    else:
        monkeypatch.delitem(sys.modules, "grpc_health.v1.health_pb2")
        monkeypatch.setattr(sys.modules["grpc_health.v1"], "__path__", [str(tmp_path)])
        (tmp_path / "health_pb2.py").write_text("raise RuntimeError('versions')", encoding="utf-8")
    assert said(Grpc(target="127.0.0.1:1")) == (COULD_NOT_RUN, detail)


def test_it_is_loaded_late() -> None:
    """HL-4.10: a matrix without such a probe loads nothing of it."""
    code = "import sys, idkmesh.health.probes; sys.exit('grpc' in sys.modules)"
    subprocess = importlib.import_module("subprocess")
    run = subprocess.run([sys.executable, "-c", code], check=False, cwd=Path(__file__).parents[2], timeout=60)
    assert run.returncode == 0


def test_nothing_is_left() -> None:
    """HL-4.1: no run leaves a descriptor or a thread of ours."""
    with server() as (target, servicer):
        servicer.set("", messages.HealthCheckResponse.SERVING)
        probe = probe_for(Grpc(target=target))
        said(probe)
        before, threads = descriptors(), threads_but_the_servers()
        for _ in range(30):
            assert said(probe) == (OK, "SERVING")
        assert settled(lambda: threads_but_the_servers() <= threads), threads_but_the_servers() - threads
        assert settled(lambda: descriptors() <= before), (descriptors(), before)
