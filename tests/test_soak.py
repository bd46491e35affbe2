from __future__ import annotations

import collections
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

if sys.platform != "linux":
    pytest.skip("the soak reads /proc and connects from many loopback addresses", allow_module_level=True)

from scripts.bench.benchlib.processes import REPOSITORY, environment
from scripts.lib.soak import command, connections, kill, page, progress, retention, sigterm
from scripts.lib.soak.kill_writer import TYPE
from scripts.lib.soak.kinds import Kind, all_kinds, deck, fault_of
from scripts.lib.soak.load import Course
from scripts.lib.soak.state import SHOWN, State, StateFileError, Step, load, save
from scripts.lib.soak.tower import AS_A_SERVICE, Use

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

KINDS = all_kinds(1, 2, "token", "e" * 16)
OK = b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"
DRAINING = b"HTTP/1.0 503 x\r\nContent-Length: 13\r\n\r\nshutting_down"


def kind(**given: Any) -> Kind:
    common: dict[str, Any] = {"name": "one", "group": "good", "pieces": ((0.0, b"GET"),), "status": 200}
    return Kind(**(common | given))


class TestState:
    def test_steps_add_up(self) -> None:
        """Rule: counts add up, of highest figures the highest stays, and of many wrong outcomes the first are shown."""
        state = State(part="kill", goal=10)
        for number in range(3):
            wrong = [f"{number}"] * SHOWN
            state = state.after(Step(count=2, sums={"a": 1}, highs={"b": 5 - number}, wrong=wrong), 0.5)
        assert (state.done, state.seconds, state.sums, state.highs) == (6, 1.5, {"a": 3}, {"b": 5})
        assert state.wrong_total == 3 * SHOWN
        assert state.wrong == ["0"] * SHOWN

    def test_file(self, tmp_path: Path) -> None:
        """Rule: what is saved is loaded, with the goal of now; no file is a beginning."""
        path = tmp_path / "folder" / "kill.json"
        assert load(path, "kill", 5) == State(part="kill", goal=5)
        save(path, State(part="kill", goal=5, done=3, sums={"a": 1}))
        assert load(path, "kill", 9) == State(
            part="kill", goal=9, done=3, sums={"a": 1}, highs={}, wrong=[], machine={}
        )

    @pytest.mark.parametrize("text", ["", "[]", '{"part": "sigterm", "goal": 1}', '{"part": "kill"}'])
    def test_other_files(self, tmp_path: Path, text: str) -> None:
        """Rule: a file that holds something else is not begun anew in silence; the line names it."""
        path = tmp_path / "kill.json"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(StateFileError, match=r"kill\.json: .*remove it"):
            load(path, "kill", 1)


def test_the_tower_is_set_as_the_unit_sets_it() -> None:
    """Rule: what is measured is what a user gets who takes the unit, its environment too."""
    lines = (REPOSITORY / "examples" / "idkmesh.service").read_text(encoding="utf-8").splitlines()
    given = [line.removeprefix("Environment=") for line in lines if line.startswith("Environment=")]
    assert given == [f"{name}={value}" for name, value in AS_A_SERVICE.items()]


class TestKinds:
    def test_every_deck_has_the_shares(self) -> None:
        """Rule: a deck has each kind as often as its share, in an order of its own that comes again."""
        shares = collections.Counter({one.name: one.share for one in KINDS})
        assert collections.Counter(one.name for one in deck(KINDS, 7)) == shares
        assert deck(KINDS, 7) == deck(KINDS, 7) != deck(KINDS, 8)
        assert {one.group for one in KINDS} == {"good", "refused", "malformed", "slow", "aborted", "streams"}

    def test_going_on_plays_what_is_left(self) -> None:
        """Rule: the connections from a number on are the same whether it began there or before."""
        whole = connections.slice_of(KINDS, 0, 300)
        assert connections.slice_of(KINDS, 0, 130) + connections.slice_of(KINDS, 130, 170) == whole

    @pytest.mark.parametrize(
        ("given", "received", "end", "took"),
        [
            ({}, OK, "eof", 0.1),
            ({"holds": b"ok"}, OK, "eof", 0.1),
            ({"head_only": True}, OK[:-2], "eof", 0.1),
            ({"status": None, "least": 3.0}, b"", "eof", 3.0),
            ({"status": None}, b"", "reset", 0.1),
            ({"leave": True, "status": None}, b"", "left", 0.0),
            ({"stream": True, "holds": b":"}, b"HTTP/1.0 200 OK\r\n\r\n: here\n", "left", 0.3),
        ],
    )
    def test_as_expected(self, given: dict[str, Any], received: bytes, end: str, took: float) -> None:
        """Rule: what was decided before is right."""
        assert fault_of(kind(**given), received, end, took) is None

    @pytest.mark.parametrize(
        ("given", "received", "end", "took", "fault"),
        [
            ({}, OK, "late", 60.0, "never ended"),
            ({}, OK[:-1], "eof", 0.1, "1 bytes of content, 2 declared"),
            ({}, OK, "reset", 0.1, "then reset"),
            ({}, b"", "eof", 0.1, "0 bytes where 200"),
            ({}, b"no http", "eof", 0.1, "7 bytes where 200"),
            ({"status": 404}, OK, "eof", 0.1, "200 instead of 404"),
            ({"holds": b"else"}, OK, "eof", 0.1, "other content"),
            ({"head_only": True}, OK, "eof", 0.1, "HEAD"),
            ({"status": None}, OK, "eof", 0.1, "where none was expected"),
            ({"status": None, "least": 3.0}, b"", "eof", 1.0, "before its deadline"),
            ({"stream": True, "holds": b":"}, b"HTTP/1.0 200 OK\r\n\r\n", "eof", 0.3, "then eof"),
        ],
    )
    def test_anything_else_is_wrong(
        self, given: dict[str, Any], received: bytes, end: str, took: float, fault: str
    ) -> None:
        """Rule: anything but the one right outcome is wrong, and the line says how."""
        assert fault in str(fault_of(kind(**given), received, end, took))

    def test_at_rest(self) -> None:
        """Rule: a descriptor more, threads beyond the workers, 16 MiB more, and a traceback are each wrong."""
        idle, base = Use(20, 10, 1 << 25), Use(22, 20, 1 << 26)
        most = Use(22 + connections.MORE_DESCRIPTORS, 10 + connections.WORKERS, (1 << 26) + connections.ALLOWED_BYTES)
        assert connections.compared(idle, base, most, "all well").wrong == []
        worse = Use(most.descriptors + 1, most.threads + 1, most.resident + 1)
        assert len(connections.compared(idle, base, worse, "Traceback (most recent call last)").wrong) == 4


class TestOutcomes:
    @pytest.mark.parametrize(
        ("given", "name"),
        [
            ({"received": OK}, "answered 200"),
            ({"received": DRAINING, "ended": 3.0}, "answered 503 shutting_down"),
            ({"received": DRAINING, "ended": 1.5}, "wrong"),
            ({"received": DRAINING, "ended": 3.0, "admitted": True}, "wrong"),
            ({"received": b"", "sent": 2.5, "ended": 3.0}, "cut off unread, after the signal"),
            ({"received": b"", "sent": 1.5, "ended": 3.0}, "wrong"),
            ({"received": b"", "sent": 2.5, "ended": 3.0, "admitted": True}, "wrong"),
            ({"received": OK[:-1], "sent": 2.5, "ended": 3.0}, "wrong"),
            ({"received": OK.replace(b"200", b"500")}, "wrong"),
            ({"received": DRAINING, "ended": 3.0, "stream": True}, "answered 503 shutting_down"),
            (
                {"received": b"Content-Type: text/event-stream\r\n\r\nevent: shutting_down\n\n", "stream": True},
                "streams ended with a word",
            ),
            ({"received": b"Content-Type: text/event-stream\r\n\r\n: here\n\n", "stream": True}, "wrong"),
        ],
    )
    def test_of_a_signal_at_2(self, given: dict[str, Any], name: str) -> None:
        """Rule: what was admitted before the signal is answered whole; who comes later may be cut off unread."""
        common: dict[str, Any] = {"what": "status", "sent": 1.0, "ended": 1.5}
        found, fault = sigterm.outcome(sigterm.Exchange(**(common | given)), 2.0)
        assert found == name
        assert (fault is not None) == (name == "wrong")

    def test_what_a_writer_told(self) -> None:
        """Rule: a line that the kill has cut off tells nothing."""
        assert kill.told(b"\n7 1\n8 2\n9 1") == {7: 1, 8: 2}
        assert kill.told(b"") == {}

    @pytest.mark.parametrize(
        ("numbers", "acknowledged", "count"),
        [
            ([(6, 1), (7, 2)], {6: 1}, 0),
            ([], {}, 0),
            ([(6, 1)], {6: 1, 7: 2}, 1),
            ([(6, 1), (7, 1)], {}, 1),
            ([(6, 1), (8, 2)], {}, 1),
            ([(6, 2), (7, 3)], {6: 1}, 2),
        ],
    )
    def test_lost_and_doubled(self, numbers: list[tuple[int, int]], acknowledged: dict[int, int], count: int) -> None:
        """Rule: an event that was told and is not there, one that is there twice, and a gap are each wrong."""
        found = [kill.Found(sequence, TYPE, 3, number) for sequence, number in numbers]
        assert len(kill.faults(found, acknowledged, 5, 3)) == count

    def test_halves(self) -> None:
        """Rule: a whole day keeps what is set by default; a short run keeps less, and never less than is allowed."""
        by_count, by_age = retention.halves(8_640_000)
        assert (by_count.end, by_count.kept, by_age.end, by_age.kept) == (4_320_000, 100_000, 8_640_000, 60_000)
        assert [half.kept for half in retention.halves(100)] == [100, 6_000]
        # What the first half has left is more than the second may keep: its first look prunes it, and the turns after.
        assert by_count.settled < by_age.settled < 2 * (by_count.kept + retention.MINUTE) < by_age.end - by_count.end


class TestPage:
    def test_of_what_was_run(self) -> None:
        """Rule: the page has the figures, the first wrong outcomes, and what is missing of the full number."""
        state = State(part="kill", goal=10, done=10, seconds=2.0, wrong_total=1, wrong=["event 7 is lost"])
        text = page.written([state], {"kill": 1000, "sigterm": 5})
        assert "event 7 is lost" in text
        assert "- kill: 10 of 1,000 (1.0%)." in text
        assert "- sigterm: 0 of 5 (0.0%)." in text
        assert "Everything was." in page.written([State(part="kill", goal=1, done=1)], {"kill": 1})

    def test_every_part_is_told_of(self) -> None:
        """Rule: the page says of each part what it does."""
        assert page.ABOUT.keys() == command.PARTS.keys()

    def test_progress(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        """Rule: without a terminal it is lines; on one a bar, where rich is installed."""
        state = State(part="kill", goal=10)
        with progress.shown(state) as tell:
            tell(state.after(Step(count=10), 2.0))
        assert "kill: 10 of 10, 0 wrong, 5.0/s, 0 s left\n" in capsys.readouterr().err
        pytest.importorskip("rich")
        monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
        with progress.shown(state) as tell:
            tell(state.after(Step(count=10), 2.0))
        assert "10/10" in capsys.readouterr().err


class TestRuns:
    def test_connections(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """HS-4.7, HS-4.2, HS-4.3: each kind once and more against a full tower: all right, and nothing left."""
        monkeypatch.setattr(connections, "LOOK_SECONDS", 1.0)
        monkeypatch.setattr(connections, "WARM_UP", 20)
        monkeypatch.setattr(connections, "FILLING", 20)
        state = command.run("connections", 100, tmp_path)
        assert state.wrong == []
        assert sum(state.sums[group] for group in {one.group for one in KINDS}) == 100
        assert (state.sums["warm-up"], state.sums["towers compared at rest"]) == (40, 1)

    def test_wrong_outcomes_are_shown(self) -> None:
        """Rule: what comes out otherwise is told with number, kind and bytes; nobody listens here."""
        course = Course()
        course.run(5, [kind(port=1)])
        course.close()
        (wrong,) = course.wrong
        assert wrong.startswith("connection 5 (good, one): 0 bytes where 200 was expected, reset; sent b'GET'")

    def test_sigterm(self, tmp_path: Path) -> None:
        """HS-9.2, HS-9.3: a full tower under load ends with 0, and has answered whatever it had admitted."""
        state = command.run("sigterm", 2, tmp_path)
        assert state.wrong == []
        assert state.sums["answered 200"] > 0

    def test_kill_goes_on(self, tmp_path: Path) -> None:
        """EV-2.2: no committed event is lost or doubled; another sitting goes on where the first has ended."""
        assert command.run("kill", 3, tmp_path).done == 3
        state = command.run("kill", 7, tmp_path)
        assert (state.done, state.sittings, state.wrong) == (7, 2, [])
        assert state.sums["events found"] >= state.sums["events acknowledged"] > 0
        assert command.run("kill", 7, tmp_path).sittings == 2

    def test_a_writer_that_nobody_reads(self, tmp_path: Path) -> None:
        """Rule: a writer ends with the run that was killed, and is not in the store with the next run's writers."""
        read, write = os.pipe()
        words = ["-m", "scripts.lib.soak.kill_writer", str(tmp_path / "events.sqlite3"), "1", str(write)]
        env = environment({"PYTHONPATH": str(REPOSITORY)})
        with subprocess.Popen([sys.executable, *words], cwd=REPOSITORY, env=env, pass_fds=[write]) as process:
            try:
                os.close(write)
                assert os.read(read, 1) == b"\n"
                os.close(read)
                assert process.wait(30) == 1
            finally:
                process.kill()

    def test_retention(self, tmp_path: Path) -> None:
        """EV-2.4: by number and by age as much is kept as is set, and the reader is told of each gap."""
        state = command.run("retention", 30_000, tmp_path)
        assert (state.done, state.wrong) == (30_000, [])
        assert state.sums["events read"] + state.sums["events in these gaps"] <= 30_000
        assert state.sums["gaps announced"] > 0

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
    def test_interrupted(self, tmp_path: Path, number: signal.Signals) -> None:
        """Rule: a signal ends a run with 130; its file has the last whole step, and the next run goes on from there."""
        line = [sys.executable, "-m", "scripts.lib.soak", "--only=kill", "--count=10000", f"--folder={tmp_path}"]
        env = environment({"PYTHONPATH": str(REPOSITORY)})
        with subprocess.Popen(line, cwd=REPOSITORY, env=env, stderr=subprocess.PIPE, text=True) as process:
            path = tmp_path / "kill.json"
            deadline = time.monotonic() + 60
            while not path.exists():
                assert time.monotonic() < deadline
                time.sleep(0.02)
            process.send_signal(number)
            _, error = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "goes on from the last whole step" in error
        done = json.loads(path.read_text(encoding="utf-8"))["done"]
        assert done % kill.STEP == 0 < done
        assert command.run("kill", done + 1, tmp_path).wrong == []

    def test_exit_codes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Rule: 0 where nothing was wrong, 1 where something was or a file of state is none."""

        def found(_state: State, _folder: Path) -> Generator[Step, None, None]:
            yield Step(count=1, wrong=["a thing"])

        def nothing(_state: State, _folder: Path) -> Generator[Step, None, None]:
            yield Step(count=1)

        monkeypatch.setattr(signal, "signal", lambda *_: None)
        monkeypatch.setitem(command.PARTS, "kill", (found, 1))
        line = ["--only", "kill", "--count", "1", "--folder", str(tmp_path)]
        assert command.main(line) == 1
        monkeypatch.setitem(command.PARTS, "kill", (nothing, 1))
        assert command.main([*line, "--fresh"]) == 0
        (tmp_path / "kill.json").write_text("no state", encoding="utf-8")
        assert command.main(line) == 1

    def test_what_the_page_says_to_type(self) -> None:
        """Rule: each command of the page of reliability is one that is taken."""
        page = (REPOSITORY / "docs" / "RELIABILITY.md").read_text(encoding="utf-8")
        lines = [line.partition("#")[0].split() for line in page.splitlines() if line.startswith("scripts/soak")]
        assert len(lines) == 2
        for program, *flags in lines:
            assert (REPOSITORY / program).is_file()
            command.arguments(flags)
