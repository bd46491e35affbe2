from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if sys.platform != "linux":
    pytest.skip("the benchmarks read /proc and pin processes", allow_module_level=True)

from idkmesh.health.matrix_file import load_matrix
from scripts.bench.benchlib import (
    app,
    crowd,
    fault_site,
    fault_table,
    faults,
    messages,
    nginx,
    openloop,
    options,
    processes,
    procfs,
    report,
    servers,
    sse,
    stats,
    wrk,
)
from scripts.bench.benchlib.tables import table
from tests.workloads.etcd_support import WHY_NOT

if TYPE_CHECKING:
    from collections.abc import Iterator

BENCH = Path(__file__).resolve().parents[1] / "scripts" / "bench"
PROGRAMS = (
    *("throughput", "hostile", "overload", "drop_in", "sse", "readyz", "faults"),
    *("declaration", "workloads", "adapter", "topology", "topology_etcd", "imports"),
)
STORES = shutil.which("redis-server") and list(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
pins = pytest.mark.skipif(not (shutil.which("taskset") and shutil.which("prlimit")), reason="util-linux is missing")


class TestFigures:
    def test_percentile_is_a_value_that_was_measured(self) -> None:
        """Nearest rank: the smallest value that at least so many percent do not exceed."""
        hundred = [float(value) for value in range(1, 101)]
        assert stats.percentile(hundred, 50) == 50
        assert stats.percentile(hundred, 99) == 99
        assert stats.percentile(hundred, 100) == 100
        assert stats.percentile([7.0], 1) == 7
        assert math.isnan(stats.percentile([], 50))

    def test_latency_is_in_milliseconds_whatever_the_order(self) -> None:
        """Durations come in seconds, in the order in which they ended."""
        assert stats.latency([0.003, 0.001, 0.002]) == {"count": 3, "p50": 2.0, "p99": 3.0, "max": 3.0}

    def test_ratio_is_the_median_of_pairs_from_one_round(self) -> None:
        """A slow round of the whole machine does not move the ratio; a server without a figure gives none."""
        assert stats.ratio([40.0, 4.0, 44.0], [10.0, 1.0, 10.0]) == 4.0
        assert math.isnan(stats.ratio([1.0], []))
        assert math.isnan(stats.ratio([1.0], [0.0]))

    def test_goal_is_reached_at_its_bound_and_never_by_a_figure_that_is_missing(self) -> None:
        """At least and at most include the bound."""
        assert report.Goal("rate", 4.0, 4, at_least=True).verdict == "reached"
        assert report.Goal("rate", 3.9, 4, at_least=True).verdict == "MISSED"
        assert report.Goal("p99", 2.1, 2, at_least=False).verdict == "MISSED"
        assert report.Goal("p99", math.nan, 2, at_least=False).verdict == "not measured"

    def test_table_is_markdown_and_shows_what_was_not_measured(self) -> None:
        """A missing value is a dash, not a zero."""
        lines = table(("server", "rate"), [("one", 12345.6), ("other", math.nan), ("third", None)]).splitlines()
        assert lines == [
            "| server |   rate |",
            "| ------ | -----: |",
            "| one    | 12,346 |",
            "| other  |      - |",
            "| third  |      - |",
        ]

    def test_processor_time_memory_and_threads_of_a_tree_count_its_children(self) -> None:
        """A server with worker processes is measured whole."""
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            assert child.pid in procfs.tree(os.getpid())
            assert procfs.Footprint.read(os.getpid()).resident_bytes > procfs.Footprint.read(child.pid).resident_bytes
            assert child.stdin is not None
            child.stdin.write(b"\n")
        assert procfs.cpu_seconds(os.getpid()) > 0
        assert procfs.tree(child.pid) == [child.pid]
        assert procfs.cpu_seconds(child.pid) == 0

    def test_wrk_summary_is_read_and_every_kind_of_error_is_added(self) -> None:
        """Errors are no requests served."""
        line = (
            'BENCH {"requests":1010,"microseconds":2000000,"bytes":5,"connect":1,"read":2,"write":3,"status":4,'
            '"timeout":0,"p50":1500,"p99":2500,"max":9000}'
        )
        summary = wrk.parse(f"Running 2s test\n{line}\n")
        assert (summary.errors, summary.rate, summary.p50, summary.p99, summary.max) == (10, 500.0, 1.5, 2.5, 9.0)
        with pytest.raises(wrk.WrkError, match="unable to connect"):
            wrk.parse("unable to connect to 127.0.0.1:1")


class TestMessages:
    @pytest.mark.parametrize(
        ("data", "status", "complete"),
        [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, True),
            (b"HTTP/1.0 503 Busy\r\ncontent-length:0\r\n\r\n", 503, True),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", 200, False),
            (b"HTTP/1.1 200 OK\r\n\r\nok", 200, False),
        ],
    )
    def test_response_is_complete_only_with_its_declared_length(self, data: bytes, status: int, complete: bool) -> None:
        """A cut response is an error of the server, not an answer."""
        response = messages.parse(data)
        assert response is not None
        assert (response.status, response.complete, response.size) == (status, complete, len(data))

    @pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\nContent-Le", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1\r\n\r\n"])
    def test_what_is_no_head_is_no_response(self, data: bytes) -> None:
        """An unfinished head and another protocol are told from an answer."""
        assert messages.parse(data) is None

    def test_a_browser_sends_twelve_fields(self) -> None:
        """The two that every request has, and ten."""
        head = messages.request(80, "/", messages.BROWSER_HEADERS)
        assert head.count(b"\r\n") == 1 + 12 + 1

    def test_slow_clients_begin_as_their_kind_says(self) -> None:
        """A trickled head does not end; a trickled body is declared, and its head does."""
        plan = crowd.Plan(port=80, kind="heads", clients=1, path="/")
        assert plan.opening().endswith(b"X-Slow: a")
        plan = crowd.Plan(port=80, kind="bodies", clients=1, path="/x")
        assert plan.opening().startswith(b"POST /x HTTP/1.1\r\n")
        assert plan.opening().endswith(b"Content-Length: 100000\r\n\r\n")


class TestServers:
    def test_a_server_that_is_not_installed_says_so(self) -> None:
        """It becomes a row; it is not left out."""
        server = servers.Server("x", lambda _: [], needs=("no_such_module_here", "json"))
        assert server.missing() == "not installed: no_such_module_here"
        with pytest.raises(processes.StartError, match="not installed"), servers.running(server, 0):
            pass

    @pins
    def test_a_server_that_ends_at_once_says_why(self) -> None:
        """Its last line is the reason, without the places that it names."""
        command = [sys.executable, "-c", "raise SystemExit('no port in /etc/secret/place')"]
        server = servers.Server("x", lambda _: command)
        with (
            pytest.raises(processes.StartError, match=r"^did not start: no port in place$"),
            servers.running(server, 0),
        ):
            pass

    def test_only_chooses_by_part_of_the_name(self) -> None:
        """``--only wait`` is waitress."""
        assert options.chosen(servers.PEERS, ["WAIT"]) == [servers.WAITRESS]
        assert options.chosen(servers.PEERS, []) == list(servers.PEERS)

    def test_counts_and_times_are_bounded(self) -> None:
        """A benchmark is no way to send load without end."""
        assert options.bounded(1, 9)("9") == 9
        with pytest.raises(argparse.ArgumentTypeError, match="10 is not in 1-9"):
            options.bounded(1, 9)("10")

    def test_every_form_of_the_program_has_one_body(self, tmp_path: Path) -> None:
        """It is text for nginx, bytes for the others; padding changes its length and nothing else."""
        text = nginx.configure(tmp_path, 1, app.SMALL, 10).read_text(encoding="utf-8")
        assert f"return 200 '{app.SMALL.decode()}'" in text
        assert text.count("add_header") == len(app.PROGRAM_HEADERS) == 7
        assert len(app.document(900)) == 900
        assert json.loads(app.document(900))["status"] == json.loads(app.document(0))["status"] == "ready"


@pytest.fixture
def program() -> Iterator[int]:
    """Run the benchmarks' program on the standard library's server, and give its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), app.Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


class TestOpenLoop:
    def test_every_request_is_sent_and_answered(self, program: int) -> None:
        """Twenty in a tenth of a second."""
        generator = openloop.Generator(openloop.Load(port=program, path="/", rate=200, seconds=0.1, timeout=5))
        generator.run()
        assert generator.outcomes == {"200": 20}
        assert len(generator.answered) == len(generator.lags) == 20

    @pytest.mark.parametrize(
        ("answer", "outcomes"),
        [
            (b"HTTP/1.0 503 Busy\r\nContent-Length: 0\r\n\r\n", {"503": 3, "refusals without their fields": 3}),
            (b"HTTP/1.0 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n", {"503": 3}),
            (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\ncut", {"incomplete": 3}),
            (b"", {"closed without a response": 3}),
        ],
    )
    def test_what_is_no_whole_answer_is_told(self, answer: bytes, outcomes: dict[str, int]) -> None:
        """Refusals must have their fields, and responses their length."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=_answer, args=(listener, answer, 3))
            thread.start()
            port = listener.getsockname()[1]
            load = openloop.Load(
                port=port, path="/", rate=100, seconds=0.03, timeout=5, refusal_fields=("Retry-After",)
            )
            generator = openloop.Generator(load)
            generator.run()
            thread.join()
        assert generator.outcomes == outcomes

    def test_a_request_that_nobody_answers_ends_in_time(self) -> None:
        """The load is bounded in time and in connections, whatever the server does."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            load = openloop.Load(port=port, path="/", rate=100, seconds=0.05, timeout=0.1, max_open=2)
            generator = openloop.Generator(load)
            generator.run()
        assert generator.outcomes == {"timed out": 2, "not sent": 3}


def _answer(listener: socket.socket, answer: bytes, count: int) -> None:
    for _ in range(count):
        connection, _address = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(answer)


class TestFaults:
    @pytest.mark.parametrize(
        ("ready_again", "beyond", "back"),
        [(None, 0, 1.25), (15.0, 1, 1.25), (10.5, 0, 1.25)],
        ids=["as it must be", "ready in the fault", "ready within the bound"],
    )
    def test_ready_answers_beyond_the_bound_are_counted(
        self, ready_again: float | None, beyond: int, back: float
    ) -> None:
        """HL-8.5: an answer that says ready counts from the bound and what the machine is allowed on, not before."""
        matrix = load_matrix(fault_table.matrix_text(1).format(database=1, cache=2, api=3, ready="r", ping="p"), "m")
        (fault,) = (each for each in fault_table.FAULTS if each.name == "HTTP resets")
        ready = [at for at in (9.0, ready_again, 21.25) if at is not None]
        told = [fault_site.Asked(at, at, "/readyz", 503, ("api",)) for at in (10.75, 19.0, 20.5)]
        well = [fault_site.Asked(at, at, "/readyz", 200) for at in ready]
        alive = fault_site.Asked(21.5, 21.5, "/livez", 503)
        answers = tuple(sorted([*told, *well, alive], key=lambda each: each.sent))
        timeline = [{"at_seconds": 11.5, "what": "left_rotation"}, {"at_seconds": 22, "what": "entered_rotation"}]
        kept = fault_site.Kept((), answers, {"timeline": timeline, "restarts": [{"at_seconds": 25.0}]})
        found = faults.summary("s", fault_site.Planned(fault, 10.0, 20.0), 30.0, kept, matrix)
        assert (found.notice, found.act, found.back, found.enter) == (0.75, 1.5, back, 2.0)
        assert (found.restarts, found.beyond, found.stalled) == (1, beyond, 1)

    def test_every_fault_has_its_bounds(self) -> None:
        """HL-8.5: each figure of the table follows from the matrix; the orchestrator acts after the answers tell."""
        matrix = load_matrix(fault_table.matrix_text(1).format(database=1, cache=2, api=3, ready="r", ping="p"), "m")
        slower = load_matrix(fault_table.matrix_text(2).format(database=1, cache=2, api=3, ready="r", ping="p"), "m")
        for fault in fault_table.FAULTS:
            limits = fault_table.bounds(fault, matrix, 0.5)
            assert 0 < limits.notice <= limits.act < limits.lasts
            assert 0 < limits.back <= limits.enter
            assert fault_table.bounds(fault, slower, 0.5).notice == pytest.approx(2 * limits.notice)


class TestPrograms:
    @pytest.mark.parametrize("name", PROGRAMS)
    def test_help_says_what_is_measured(self, name: str) -> None:
        """Each is a program of its own that explains itself."""
        done = subprocess.run([sys.executable, BENCH / name, "--help"], capture_output=True, text=True, check=True)
        assert "--only NAME" in done.stdout
        assert os.access(BENCH / name, os.X_OK)

    @pins
    def test_hostile_measures_healthy_requests_beside_a_crowd(self, tmp_path: Path) -> None:
        """A thread for each of twenty slow clients, and every healthy request answered."""
        crowd_size = ["--kind", "heads", "--clients", "20", "--many", "0", "--connects", "100"]
        (run,) = _bench("hostile", tmp_path, *crowd_size, "--peer-seconds", "1", "--rate", "20", "--timeout", "10")
        assert run["healthy"]["outcomes"] == {"200": 20}
        assert run["crowd_before"]["held"] == run["crowd_after"]["held"] == 20
        assert run["peak"]["threads"] > 20

    @pins
    def test_overload_tells_what_became_of_every_request(self, tmp_path: Path) -> None:
        """Offered is answered, refused, or named."""
        (run,) = _bench(
            "overload", tmp_path, "--kind", "waiting", "--factor", "1", "--seconds", "1", "--work-ms", "200"
        )
        assert run["load"]["offered"] == 80
        assert sum(run["load"]["outcomes"].values()) == 80
        assert run["health"]["offered"] == 100

    @pins
    @pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
    def test_readyz_asks_each_tower(self, tmp_path: Path) -> None:
        """HL-5.1: no dependency, many, and ten that hang: each answers 200, whatever the rate."""
        shape = ("--rounds", "1", "--seconds", "1", "--connections", "2", "--files", "10")
        runs = _bench("readyz", tmp_path, *shape, only=None)
        assert [run["dependencies"] for run in runs] == ["none", "1,000 files", "10 that hang"]
        assert all(run["errors"] == 0 and run["requests"] > 0 for run in runs)

    @pins
    @pytest.mark.alone
    def test_adapter_is_measured_with_its_children(self, tmp_path: Path) -> None:
        """RA-9.1, RA-9.5: two threads, and descriptors that come and go with a child; the node is ready throughout."""
        (run,) = _bench("adapter", tmp_path, "--seconds", "4", only=None)
        assert (run["threads"], run["not_200"]) == (2, 0)
        assert run["asked"] >= 6
        assert 0 < run["most_descriptors"] - run["fewest_descriptors"] <= 8
        assert run["resident_bytes"] > 10_000_000

    @pytest.mark.skipif(not STORES, reason="PostgreSQL and Redis are missing: Debian's packages postgresql and redis")
    @pytest.mark.alone
    def test_faults_are_done_and_measured(self, tmp_path: Path) -> None:
        """HL-8.5: a real service behind a real proxy, once: noticed, over, no restart and nothing ready in between."""
        (run,) = _bench("faults", tmp_path, "--rounds", "1", "--fault", "HTTP slower", only="serve")
        assert (run["restarts"], run["beyond"], run["stalled"]) == (0, 0, 0)
        assert run["notice"] > 0
        assert run["back"] > 0

    def test_declaration_judges_each_way(self, tmp_path: Path) -> None:
        """AR-2.1: as people write it, in a line each, with mistakes, as made values, and PyYAML beside them."""
        runs = _bench("declaration", tmp_path, "--rounds", "2", "--modules", "20", only=None)
        assert len({run["way"] for run in runs}) == 5
        assert len(runs) == 10
        assert all(run["seconds"] > 0 for run in runs)

    @pins
    def test_imports_are_timed_each_by_itself(self, tmp_path: Path) -> None:
        """HS-1.1: the standard library's server, the package, and every name of it, which loads the server."""
        runs = _bench("imports", tmp_path, "--rounds", "2", only=None)
        assert [run["round"] for run in runs] == [1, 1, 1, 2, 2, 2]
        assert {run["what"] for run in runs} == {"http.server", "idkmesh.httpd", "every name of idkmesh.httpd"}
        assert all(run["seconds"] > 0 for run in runs)

    def test_workloads_makes_passes(self, tmp_path: Path) -> None:
        """AR-3.2: a pass over processes that sleep, with a command in each, and the listing beside it."""
        runs = _bench("workloads", tmp_path, "--rounds", "2", "--processes", "60", only="processes")
        assert [run["instances"] for run in runs] == [60] * 4
        assert {run["way"] for run in runs} == {"local processes", "local processes, listing alone"}
        assert all(run["seconds"] > 0 for run in runs)

    def test_topology_measures_each_way(self, tmp_path: Path) -> None:
        """RT-3.8, RT-11.6: a reading, a selection, a change here and by a file, and what an observation takes."""
        runs = _bench("topology", tmp_path, "--rounds", "2", "--observations", "200", only=None)
        assert len({run["way"] for run in runs}) == 5
        assert len(runs) == 9
        assert all(run["value"] > 0 for run in runs)
        (memory,) = (run["value"] for run in runs if "memory" in run["way"])
        assert memory <= 2048

    @pins
    def test_topology_readers_measures_probes_beside_each_way(self, tmp_path: Path) -> None:
        """RT-11.7: a probe beside nobody, documents made for each reader, and one made for all, still and in change."""
        arguments = ("--rounds", "1", "--seconds", "1", "--observations", "300", "--readers", "2")
        runs = _bench("topology_readers", tmp_path, *arguments, only=None)
        assert [(run["way"], run["changes"]) for run in runs] == [
            (way, changes) for changes in (0, 100) for way in ("nobody reads", "made for each", "made once")
        ]
        assert all(min(run["probes"]) > 0 for run in runs)
        assert all((run["readings"] > 0) is (run["size"] > 100_000) is (run["way"] != "nobody reads") for run in runs)
        assert {run["age"] for run in runs} == {0.0}

    @pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
    def test_topology_etcd_sees_each_change(self, tmp_path: Path) -> None:
        """RT-7.4: `scripts/bench/topology_etcd` measures each change of an etcd, and none is lost."""
        runs = _bench("topology_etcd", tmp_path, "--observations", "100", "--changes", "60", only=None)
        assert len(runs) == 60
        assert all(run["seen"] >= run["sent"] for run in runs)

    @pins
    def test_sse_counts_each_event_at_each_reader(self, tmp_path: Path) -> None:
        """Every pair of event and stream has a delay, and what is missing or doubled is told."""
        (run,) = _bench("sse", tmp_path, "--streams", "5", "--rate", "40", "--seconds", "1", only=None)
        assert (run["events"], run["delay"]["count"], run["missing"], run["gaps"]) == (40, 200, 0, 0)
        assert 0 <= run["delay"]["p50"] <= run["delay"]["p99"]
        lost = sse.judge(
            sse.Scenario(2, 1, 0, None),
            {"commits": [[1, 1.0], [2, 2.0]], "threads": [3, 3], "resident": [0, 4000]},
            {"arrivals": [[1, [1.5, 1.25]], [2, [2.5]]], "gaps": 1, "ended": 0},
        )
        assert (lost.missing, lost.gaps, lost.delay["count"], lost.delay["max"], lost.kilobytes) == (1, 1, 3, 500, 2)


def _bench(name: str, directory: Path, *arguments: str, only: str | None = servers.BASELINE) -> list[dict[str, Any]]:
    """Run a benchmark, on the standard library's server alone, and return the single runs it reports."""
    output = directory / "result.json"
    chosen = [] if only is None else ["--only", only]
    command = [sys.executable, str(BENCH / name), *chosen, "--output", str(output), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    runs: list[dict[str, Any]] = json.loads(output.read_text(encoding="utf-8"))["runs"]
    return runs
