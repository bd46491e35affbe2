"""What the signal handler of a serving command does, without a signal."""

from __future__ import annotations

import os
import signal
from typing import Any, cast

import pytest

from idkmesh.httpd.signals import ServedByOthersError, ShutdownSignals, left_to_others, serve_until_signal


class Server:
    def __init__(self) -> None:
        self.drained: list[int] = []
        self.closed = 0
        self.raising: BaseException | None = None

    def request_drain(self, number: int) -> None:
        self.drained.append(number)

    def serve_forever(self) -> None:
        if self.raising is not None:
            raise self.raising

    def server_close(self) -> None:
        self.closed += 1


def test_first_drains_second_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """HS-9.6: the first signal asks for a drain, the second leaves with 128 and its number."""
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    server, signals = Server(), ShutdownSignals()
    signals.attach(cast("Any", server))
    assert server.drained == []
    signals._on_signal(signal.SIGTERM, None)
    assert signals.requested
    assert (server.drained, left) == ([signal.SIGTERM], [])
    signals._on_signal(signal.SIGINT, None)
    assert left == [130]


def test_a_second_that_hurries_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """RA-9.2: where the end is to be orderly, further signals are no reason to leave."""
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    server, signals = Server(), ShutdownSignals(second_ends=False)
    signals.attach(cast("Any", server))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        signals._on_signal(number, None)
    assert (server.drained, left) == ([signal.SIGTERM], [])


def test_the_way_out_of_an_orderly_end() -> None:
    """RA-9.2: between the end of the server and that of the process a further signal does not change the exit code."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with ShutdownSignals(second_ends=False):
            signal.raise_signal(signal.SIGTERM)
        assert {signal.getsignal(number) for number in before} == {signal.SIG_IGN}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    with ShutdownSignals(second_ends=False):
        pass
    assert {number: signal.getsignal(number) for number in before} == before


def test_signal_before_the_server() -> None:
    """HS-9.6, DRAIN-08: a signal that came before there was a server drains it as soon as there is one."""
    server, signals = Server(), ShutdownSignals()
    signals._on_signal(signal.SIGINT, None)
    signals.attach(cast("Any", server))
    assert server.drained == [signal.SIGINT]


def test_server_is_closed_whatever_happens() -> None:
    """HS-9.5: the port is closed also when the loop ends in an error."""
    server = Server()
    assert serve_until_signal(cast("Any", server), ShutdownSignals()) == 0
    server.raising = OSError("the listener broke")
    with pytest.raises(OSError, match="broke"):
        serve_until_signal(cast("Any", server), ShutdownSignals())
    assert server.closed == 2


def test_a_program_that_others_serve() -> None:
    """CT-9.6: who imports a program to serve it has it refuse to serve itself, and only meanwhile; its port is free."""
    server = Server()
    with pytest.raises(ServedByOthersError), left_to_others():
        serve_until_signal(cast("Any", server))
    assert server.closed == 1
    assert serve_until_signal(cast("Any", server), ShutdownSignals()) == 0
