"""Log lines that make nobody wait, and need no thread."""

from __future__ import annotations

import logging
import os
import select
import threading
from typing import TYPE_CHECKING

import pytest

from idkmesh.adapter.log import PromptLog

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_lines_are_there_at_once(pipe: tuple[int, int]) -> None:
    """RA-9.1: whoever has a line writes it, without a thread; DEBUG is not for this log."""
    threads = threading.active_count()
    log = PromptLog(pipe[1])
    log.write("one")
    log.write("two\nlines", logging.ERROR)
    log.write("none", logging.DEBUG)
    log.once("key", "once")
    log.once("key", "once")
    assert os.read(pipe[0], 1000) == b"one\ntwo\\nlines\nonce\n"
    assert threading.active_count() == threads
    assert log.flush(0.0)
    assert log.close(0.0)


def test_nobody_waits_for_a_reader_and_what_was_lost_is_said(pipe: tuple[int, int]) -> None:
    """RA-9.1: a full pipe takes no line; as soon as it does again, it is told how many it has missed."""
    os.set_blocking(pipe[0], False)
    log = PromptLog(pipe[1])
    for _ in range(200):
        log.write("x" * 1000)
    kept = os.read(pipe[0], 1_000_000).count(b"\n")
    log.write("read again")
    assert os.read(pipe[0], 1000) == f"{200 - kept} log lines lost: nobody has read them\nread again\n".encode()


def test_a_line_is_shorter_than_a_pipe_takes_whole(pipe: tuple[int, int]) -> None:
    """RA-9.1: a file's name may be of characters that are ten bytes each when they are written."""
    PromptLog(pipe[1]).write("\U0001f600" * 1000)
    data = os.read(pipe[0], 1_000_000)
    assert len(data) == select.PIPE_BUF
    assert data.endswith(b"\n")


def test_a_reader_that_is_gone() -> None:
    """RA-9.1: it ends nothing."""
    reader, writer = os.pipe()
    os.close(reader)
    log = PromptLog(writer)
    log.write("a line")
    log.write("another")
    os.close(writer)
    log.write("on a closed descriptor")


def test_without_standard_error() -> None:
    """RA-9.1: a program that was started without one has nowhere to write, and goes on."""
    PromptLog(None).write("a line")
