"""The page of dependencies, of a tower whose probes ask real things that the test takes away and gives back."""

from __future__ import annotations

import contextlib
import itertools
import re
import socket
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from idkmesh.health.model import Command, Dependency, File, ProbeMatrix, Refresh, Tcp
from idkmesh.health.self_watch import nothing_but_itself, room_for_files
from idkmesh.service_runtime import ServiceLimits
from tests.ui.support import REFUSED, Watched, changed_answers, running, until, verdict, watching
from tests.ui.test_looks import SMALL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page, Route

    from idkmesh.health.model import ProbeSpec
    from tests.ui.support import Tower

AWAY = r"net::ERR_"
LIST = "**/api/v1/dependencies"
MANY = 1000
HOSTILE = "<img src=x onerror=alert(1)>\u202e\u200bgnp.exe"


def row(name: str, probe: ProbeSpec, **more: Any) -> Dependency:
    given: dict[str, Any] = {"critical": True, "timeout_ms": 5000, "interval_ms": 250, "cache_ms": 30_000}
    return Dependency(name=name, probe=probe, **(given | more))


def matrix(*rows: Dependency) -> ProbeMatrix:
    return replace(nothing_but_itself(), dependencies=rows)


class World:
    """What the dependencies of the tower are: a port, and two files."""

    def __init__(self, folder: Path) -> None:
        self.lease = folder / "lease"
        self.flag = folder / "flag"
        self.lease.touch()
        self.flag.touch()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        try:
            while True:
                self.listener.accept()[0].close()
        except OSError:
            return  # it was closed

    def matrix(self) -> ProbeMatrix:
        look = f"import os, sys; sys.exit(0 if os.path.exists({str(self.flag)!r}) else 3)"
        return matrix(
            row("orders-db", Tcp(host="127.0.0.1", port=self.port)),
            row("lease", File(path=str(self.lease)), success_threshold=2, interval_ms=700),
            row(
                "cache",
                Command(argv=(sys.executable, "-S", "-E", "-c", look)),
                critical=False,
                failure_threshold=3,
                interval_ms=1000,
            ),
            row("exporter", Command(argv=("no-such-program-here",)), critical=False),
            row("search", File(path=str(self.flag)), refresh=Refresh.REQUEST, critical=False),
        )

    def refuse(self) -> None:
        """Take the port away. Who waits for a connection is woken by it."""
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self._thread.join(30)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.refuse()


@pytest.fixture
def tower(watched: Watched, world: World, tmp_path: Path) -> Iterator[Tower]:
    """Give a tower that depends on the world. Its pages are closed before it ends: they would see the drain."""
    with running(tmp_path / "events.sqlite3", matrix=world.matrix()) as started:
        yield started
        watched.context.close()


def of(page: Page, name: str) -> Locator:
    """Return the row of a dependency."""
    return page.locator(".dependency").filter(has=page.get_by_role("link", name=name, exact=True))


def judged(page: Page, words: str) -> None:
    expect(page.locator(".verdict .status")).to_contain_text(words)


def documents(page: Page, change: Any) -> None:
    changed_answers(page, LIST, change)


# --- what stands there ------------------------------------------------------------------------------------------------


def test_each_dependency_says_how_it_is(watched: Watched, tower: Tower) -> None:
    """CT-8.10: in the matrix's order, each with its state and since when, why, critical or not, and the next probe."""
    page = watched.ready(tower, "dependencies")
    judged(page, "Ready, with 1 warning")
    expect(page.locator(".counts")).to_have_text("5 dependencies: 4 ok, 0 failing, 1 unknown.")
    names = page.locator(".dependency .name a").all_inner_texts()
    assert names == ["orders-db", "lease", "cache", "exporter", "search"]
    expect(of(page, "orders-db")).to_contain_text("critical")
    expect(of(page, "orders-db").locator(".state")).to_have_text(re.compile(r"^Ok for \d+ (s|min).*: connected$"))
    expect(of(page, "cache")).to_contain_text("noncritical")
    expect(of(page, "cache").locator(".next")).to_have_text(
        re.compile("^(Next probe (in 1 s|is due)|Being probed now)$")
    )
    expect(of(page, "exporter").locator(".state")).to_have_text(
        re.compile(r"^Unknown for \d+ s: the probe could not be run: no such program$")
    )
    expect(of(page, "search").locator(".next")).to_have_text("Refreshed on request")
    expect(page.locator(".live")).to_have_text("Live")


def test_warning_is_one_on_the_overview_too(watched: Watched, tower: Tower) -> None:
    """CT-8.3: ready with a noncritical dependency that is not ok has the sign and the words that Dependencies has."""
    page = watched.ready(tower)
    verdict(page, "Ready, with 1 warning")
    overview = page.locator(".verdict")
    expect(overview).to_have_attribute("data-kind", "warn")
    expect(page.locator(".why")).to_contain_text("exporter is not ok. A noncritical dependency")
    sign = overview.locator(".lamp svg").first.evaluate("one => one.outerHTML")
    page.evaluate("location.hash = '#/dependencies'")
    judged(page, "Ready, with 1 warning")
    assert page.locator(".verdict .lamp svg").first.evaluate("one => one.outerHTML") == sign
    page.evaluate("location.hash = '#/overview'")
    answer = {"status": "ready", "failing": [], "warnings": ["cache", "exporter"], "warnings_total": 60}
    page.route("**/readyz", lambda route: route.fulfill(json=answer))
    verdict(page, "Ready, with 60 warnings")
    page.unroute_all()
    page.route("**/readyz", lambda route: route.fulfill(json={"status": "ready", "failing": [], "warnings": []}))
    verdict(page, "Ready")
    expect(overview).to_have_attribute("data-kind", "good")


def test_what_changes_is_shown(watched: Watched, tower: Tower, world: World) -> None:
    """CT-8.10, CT-8.3: what fails is named above the list, on the overview and in an event, each with a way to it."""
    page = watched.ready(tower, "dependencies")
    watched.allow(REFUSED)
    expect(of(page, "orders-db").locator(".state")).to_contain_text("Ok for")
    world.refuse()
    expect(of(page, "orders-db").locator(".state")).to_have_text(re.compile(r"^Failing for \d+ s: refused$"))
    judged(page, "Not ready: 1 critical dependency is not ok")
    expect(page.locator(".names").first).to_have_text("In the way: orders-db")
    expect(of(page, "orders-db").locator(".without")).to_have_text("leaving it out: ready")
    expect(page.locator(".message")).to_have_count(0)  # the page says it itself
    page.evaluate("location.hash = '#/overview'")
    verdict(page, "Not ready")
    expect(page.locator(".why li").first).to_have_text(
        "orders-db is not ok. A critical dependency: while it is not ok the instance is not ready."
    )
    expect(page.locator(".depends")).to_have_text("5 dependencies")
    page.evaluate("location.hash = '#/events'")
    expect(page.locator(".message[data-kind=bad]")).to_contain_text("The overview names what fails")
    page.locator(".event", has_text="orders-db (critical): ok, now failing: refused").click()
    page.get_by_role("complementary").get_by_role("link", name="orders-db").click()
    assert page.url.endswith("#/dependencies/orders-db")
    panel = page.get_by_role("complementary")
    expect(panel.get_by_role("heading", level=2)).to_have_text("orders-db")
    expect(panel).to_contain_text("Critical: while it is not ok the instance is not ready.")
    expect(panel).to_contain_text("Nothing listens at its address.")
    expect(panel).to_contain_text("ready: it alone stands in the way")
    expect(panel.locator(".changes li").first).to_contain_text("Dependency fails")


def test_thresholds_are_counted(watched: Watched, tower: Tower, world: World) -> None:
    """CT-8.10: a row of results that is not long enough yet says so as "1 of 2", and the state stays until it is."""
    page = watched.ready(tower, "dependencies/lease")
    watched.allow(REFUSED)
    panel = page.get_by_role("complementary")
    expect(panel).to_contain_text(re.compile(r"Successes in a row.*[12] of 2"))
    world.lease.unlink()
    expect(of(page, "lease").locator(".state")).to_contain_text("Failing for")
    expect(panel).to_contain_text("The file is not there.")

    def begun(document: dict[str, Any]) -> None:
        document["items"][1] |= {"successes": 1, "failures": 0}
        document["items"][2] |= {"failures": 2}

    documents(page, begun)
    expect(of(page, "lease").locator(".towards")).to_have_text("1 of 2 successes")
    expect(of(page, "cache").locator(".towards")).to_have_text("2 of 3 failures")
    expect(panel).to_contain_text(re.compile(r"Successes in a row.*1 of 2"))
    page.unroute_all()
    world.lease.touch()
    expect(of(page, "lease").locator(".state")).to_contain_text("Ok for")
    expect(of(page, "lease").locator(".towards")).to_be_hidden()


def test_what_readiness_would_be_without_it(watched: Watched, tower: Tower, world: World) -> None:
    """CT-8.10, HL-5.3: with two in the way, each says that leaving it out would not make the instance ready."""
    page = watched.ready(tower, "dependencies")
    watched.allow(REFUSED)
    world.refuse()
    world.lease.unlink()
    judged(page, "Not ready: 2 critical dependencies are not ok")
    for name in ("orders-db", "lease"):
        expect(of(page, name).locator(".without")).to_have_text("leaving it out: still not ready")
    page.locator(".names").first.get_by_role("link", name="lease").click()
    expect(page.get_by_role("complementary")).to_contain_text("not ready, as now: others stand in the way too")
    world.lease.touch()
    expect(of(page, "orders-db").locator(".without")).to_have_text("leaving it out: ready")
    expect(of(page, "lease").locator(".without")).to_be_hidden()


def test_words_of_the_panel(watched: Watched, tower: Tower, world: World) -> None:
    """CT-8.10: the panel says what a figure is, how long a row of results is, and where the probe's target is."""
    page = watched.ready(tower, "dependencies/orders-db")
    panel = page.get_by_role("complementary")
    documents(page, lambda document: document["items"][0].update(successes=15))
    for words in (
        "Critical: while it is not ok the instance gets no traffic.",
        "Leaving it out readiness, if the matrix did not name it ready, as now",
        "Interval interval_ms, from run to run 250 ms",
        "A result is valid for cache_ms, then it is unknown 30 s",
        "1 of 1 (15 in a row)",
        "What the probe asks is in the matrix file alone: an address or a command may be a secret.",
    ):
        expect(panel).to_contain_text(re.compile(re.escape(words).replace(r"\ ", r"\s*")))
    expect(panel).not_to_contain_text(re.compile("without it", re.IGNORECASE))
    expect(panel).not_to_contain_text(str(world.port))


def test_a_refused_matrix_is_told(watched: Watched, tower: Tower) -> None:
    """CT-8.10, HL-3.5: while a matrix that was read again is refused the page says so, with when and what; as text."""
    page = watched.ready(tower, "dependencies")
    expect(of(page, "cache")).to_be_visible()
    banner = page.locator(".refused")
    expect(banner).to_have_text("")
    told = {"refused": {"at": "2020-01-01T04:44:29.123Z", "what": f"line 3, column 5: {HOSTILE}"}}
    documents(page, lambda document: document.update(matrix=told))
    expect(banner).to_have_text(
        re.compile(
            r"^The matrix file was refused at \d\d:\d\d:29 \(line 3, column 5: <img src=x onerror=alert\(1\)>.*\)\. "
            r"The earlier one is in force\.$"
        )
    )
    expect(banner.locator("img")).to_have_count(0)
    expect(page.locator(".dependency")).to_have_count(5)
    page.unroute_all()
    documents(page, lambda document: document.update(matrix={"refused": None}))
    expect(banner).to_have_text("")


@pytest.mark.parametrize("way", ["row", "link"])
def test_the_opened_one_is_in_sight(browser: Browser, tmp_path: Path, world: World, way: str) -> None:
    """CT-8.10: in one column the opened dependency is brought into sight, from a row far below or by its address."""
    with (
        running(tmp_path / "events.sqlite3", matrix=world.matrix()) as tower,
        watching(browser, viewport={"width": 390, "height": 600}) as watched,
    ):
        page = watched.ready(tower)
        if way == "row":
            page.evaluate("location.hash = '#/dependencies'")
            of(page, "search").get_by_role("link").click()
        else:
            page.evaluate("location.hash = '#/dependencies/search'")
        panel = page.get_by_role("complementary")
        expect(panel).to_contain_text("Leaving it out")
        until(page, lambda: 0 <= panel.evaluate("one => one.getBoundingClientRect().top") < 300)
        page.close()


def test_running_stuck_and_expired(watched: Watched, tower: Tower) -> None:
    """CT-8.10: a probe that runs, one that does not come back and a result that has expired each say so."""
    page = watched.ready(tower, "dependencies")
    expect(of(page, "cache")).to_be_visible()

    def odd(document: dict[str, Any]) -> None:
        orders, lease, cache, _exporter, search = document["items"]
        orders |= {"running": True, "next_run_seconds": None}
        lease |= {"verdict": "unknown", "reason": "stuck", "running": True, "stuck": True, "next_run_seconds": None}
        cache |= {"verdict": "unknown", "reason": "stale"}
        search |= {"verdict": "unknown", "reason": "not_run", "detail": None, "age_seconds": None, "results": []}

    documents(page, odd)
    expect(of(page, "orders-db").locator(".next")).to_have_text("Being probed now")
    expect(of(page, "lease").locator(".next")).to_have_text("Stuck: its probe has not come back")
    expect(of(page, "lease").locator(".state")).to_contain_text("the probe has not come back")
    expect(of(page, "cache").locator(".state")).to_contain_text("the newest result has expired")
    expect(of(page, "cache").locator(".expired")).to_have_attribute("d", re.compile("^M"))
    expect(of(page, "orders-db").locator(".expired")).to_have_attribute("d", "")
    expect(of(page, "search").locator(".state")).to_have_text("Unknown: not probed yet")
    expect(of(page, "search").locator(".readout")).to_have_text("No result yet.")
    expect(of(page, "search").get_by_role("slider")).to_have_count(0)


# --- beats ------------------------------------------------------------------------------------------------------------


def beat(second: int, outcome: str, latency: float, detail: str) -> dict[str, Any]:
    return {"time": f"2020-01-01T00:00:{second:02}.000Z", "outcome": outcome, "latency_ms": latency, "detail": detail}


def test_beats_are_walked(watched: Watched, tower: Tower) -> None:
    """CT-8.10, CT-8.8: the arrow keys walk the beats, each read out with its time, outcome, latency and reason."""
    page = watched.ready(tower, "dependencies")
    results = [
        beat(1, "ok", 1.25, "connected"),
        beat(2, "failed", 0.3, "refused"),
        beat(40, "could_not_run", 0.5, "the machine is full"),
        beat(41, "ok", 1500, "connected"),
    ]
    shown = {"results": results}
    documents(page, lambda document: document["items"][0].update(results=shown["results"], cache_ms=5000))
    strip = page.get_by_role("slider", name="Beats of orders-db")
    expect(strip).to_have_attribute("aria-valuetext", re.compile("^2020.* ok, 1.5 s: connected$"))
    strip.focus()
    readout = of(page, "orders-db").locator(".readout")
    for key, words in (
        ("ArrowLeft", "could not be run, 0.5 ms: the machine is full, after 33 s with nothing known"),
        ("ArrowLeft", "failed, 0.3 ms: refused"),
        ("ArrowDown", "ok, 1.25 ms: connected"),
        ("ArrowLeft", "ok, 1.25 ms: connected"),
        ("End", "ok, 1.5 s: connected"),
        ("Home", "ok, 1.25 ms: connected"),
        ("ArrowRight", "failed, 0.3 ms: refused"),
    ):
        page.keyboard.press(key)
        expect(strip).to_have_attribute("aria-valuetext", re.compile(rf"^2020-01-01 \d\d:00:\d\d {re.escape(words)}$"))
        expect(readout).to_have_text(re.compile(re.escape(words) + "$"))
    # Others arrive: the beat that is read stays, and nothing is read out by itself.
    said = [strip.get_attribute("aria-valuetext"), strip.get_attribute("aria-valuenow")]
    shown["results"] = [*results[1:], beat(50, "ok", 9, "newest of all")]
    expect(strip).to_have_attribute("aria-valuemax", re.compile("50000$"))
    assert [strip.get_attribute("aria-valuetext"), strip.get_attribute("aria-valuenow")] == said
    page.keyboard.press("Tab")
    expect(readout).to_contain_text("newest of all")
    page.mouse.move(0, 0)
    box = strip.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 2, box["y"] + 10)
    expect(readout).to_contain_text("failed, 0.3 ms: refused")


def test_outcomes_differ_by_shape(watched: Watched, tower: Tower) -> None:
    """CT-8.10: without colour too an ok beat stands, a failed one hangs, one not run is a box; a slow one is higher."""
    page = watched.ready(tower, "dependencies")
    results = [
        beat(1, "ok", 1, "a"),
        beat(2, "ok", 100, "b"),
        beat(3, "failed", 1, "c"),
        beat(4, "could_not_run", 0, "d"),
    ]
    documents(page, lambda document: document["items"][0].update(results=results, cache_ms=60_000))
    strip = of(page, "orders-db").locator(".strip")
    expect(strip.locator(".unrun")).to_have_attribute("d", re.compile("z$"))
    heights = [float(text) for text in re.findall(r"v(-?[\d.]+)", strip.locator(".ok").get_attribute("d") or "")]
    assert len(heights) == 2
    assert heights[1] < heights[0] < 0  # upwards is less
    deep = re.findall(r"v(-?[\d.]+)", strip.locator(".failed").get_attribute("d") or "")
    assert [float(text) > 0 for text in deep] == [True]
    expect(strip.locator(".gap")).to_have_attribute("d", "")


# --- never live when it is not ----------------------------------------------------------------------------------------


def test_refused_and_lost_turn_grey(watched: Watched, tower: Tower) -> None:
    """CT-8.11, CT-8.2: a refusal and a loss are told, with when it is asked again; the figures stand still and grey."""
    watched.allow(REFUSED, AWAY)
    page = watched.ready(tower, "dependencies/cache")
    expect(of(page, "cache").locator(".state")).to_contain_text("Ok for")
    asked: list[float] = []

    def refuse(route: Route) -> None:
        asked.append(1)
        error = {"code": "overloaded", "message": "Every place is taken."}
        route.fulfill(status=503, headers={"Retry-After": "6"}, json={"error": error})

    page.route(LIST, refuse)
    told = page.locator(".told")
    expect(told).to_have_attribute("data-stale", "")
    expect(page.locator(".live")).to_have_text(
        re.compile(r"^The service has no room .* Asked again in \d s\. Shown as of \d+ s ago\.$")
    )
    assert len(asked) == 1  # before Retry-After nothing is asked
    still = of(page, "cache").inner_text()
    assert "grayscale" in told.evaluate("one => getComputedStyle(one).filter")
    until(page, lambda: len(asked) == 2)
    assert of(page, "cache").inner_text() == still
    page.unroute_all()
    page.route(LIST, lambda route: route.abort())
    expect(page.locator(".live")).to_contain_text("The service does not answer.")
    page.unroute_all()
    expect(page.locator(".live")).to_have_text("Live")
    expect(told).not_to_have_attribute("data-stale", "")


def test_asked_only_while_somebody_looks(watched: Watched, tower: Tower) -> None:
    """CT-8.11: nothing is asked for by another page or a hidden one, never twice at once, at most once a second."""
    page = watched.ready(tower)
    waiting: list[Route] = []
    seen: list[Route] = []

    def hold(route: Route) -> None:
        seen.append(route)
        if len(seen) == 1:
            waiting.append(route)
        else:
            route.continue_()

    page.route(LIST, hold)
    page.wait_for_timeout(1500)
    assert seen == []
    page.evaluate("location.hash = '#/dependencies'")
    until(page, lambda: len(seen) == 1)
    expect(page.locator("#empty")).to_have_text("Asking the service what is known of its dependencies.")
    page.wait_for_timeout(2500)
    assert len(seen) == 1
    waiting[0].continue_()
    expect(page.locator(".dependency")).to_have_count(5)
    page.evaluate("""() => {
        window.starts = [];
        const ask = fetch;
        window.fetch = async (path, ...more) => {
            if (path === "/api/v1/dependencies") starts.push(performance.now());
            if (path === "/api/v1/status" && starts.length === 1) {  // the second question waits for this one a little
                await new Promise((go) => setTimeout(go, starts[0] + 1060 - performance.now()));
            }
            return ask(path, ...more);
        };
    }""")
    until(page, lambda: page.evaluate("starts.length") >= 4)  # the first answer was slow, so the next was put off
    starts = page.evaluate("starts")
    assert all(later - earlier > 990 for earlier, later in itertools.pairwise(starts))
    page.evaluate("""() => {
        Object.defineProperty(document, "visibilityState", { value: "hidden", configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }""")
    page.wait_for_timeout(500)  # what was out may still come
    before = len(seen)
    page.wait_for_timeout(2500)
    assert len(seen) == before
    page.evaluate("delete document.visibilityState; document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator(".live")).to_have_text("Live")


def test_starting_and_stalled_are_said(watched: Watched, tower: Tower) -> None:
    """CT-8.3: a service that starts is no ready one, and one that is stalled says so by its own liveness."""
    watched.allow(REFUSED)
    page = watched.ready(tower)
    starting = {"status": "starting", "failing": ["orders-db"], "warnings": []}
    page.route("**/readyz", lambda route: route.fulfill(status=503, json=starting))
    verdict(page, "Starting")
    expect(page.locator(".why")).to_contain_text("orders-db is not ok yet.")
    page.route("**/healthz", lambda route: route.fulfill(status=503, body="stalled"))
    verdict(page, "Stalled")
    expect(page.locator(".probes")).to_have_text("AlivenoReadynoDrainingno")
    page.unroute_all()
    page.route("**/readyz", lambda route: route.abort())
    watched.allow(AWAY)
    verdict(page, "Ready, with 1 warning")  # the status document says the same as the probe that gave no answer
    page.unroute_all()


def test_own_checks_are_named_apart(watched: Watched, tower: Tower) -> None:
    """CT-8.3, HL-2.3: what is no dependency has its own words, and the page of dependencies says that it counts too."""
    watched.allow(REFUSED)
    page = watched.ready(tower)
    answer = {"status": "not_ready", "failing": ["event_store"], "warnings": ["worker_slot"]}
    page.route("**/readyz", lambda route: route.fulfill(status=503, json=answer))
    expect(page.locator(".why")).to_contain_text("worker_slot warns. A request has held its place")
    expect(page.locator(".why a")).to_have_count(0)
    answer["failing"] = ["process_watchdog", "event_store"]
    expect(page.locator(".why")).to_contain_text("process_watchdog fails. A part of the process makes no progress")
    answer["failing"] = ["event_store"]
    answer["warnings"] = ["cache"]
    expect(page.locator(".why")).to_contain_text("it does not keep the instance from being ready.")
    expect(page.locator(".why")).not_to_contain_text("stays ready")
    page.evaluate("location.hash = '#/dependencies'")
    expect(page.locator(".beside")).to_have_text("/readyz says no for event_store too: the overview says more.")


def test_hostile_words_are_text(watched: Watched, tower: Tower) -> None:
    """CT-8.1, SEC-08: whatever a name or a detail says is text, with what nobody sees written out, and no address."""
    page = watched.ready(tower, "dependencies")
    expect(of(page, "cache")).to_be_visible()

    def hostile(document: dict[str, Any]) -> None:
        item = document["items"][0]
        item |= {"name": HOSTILE, "detail": HOSTILE, "probe": HOSTILE, "verdict": HOSTILE}
        item["results"] = [beat(1, HOSTILE, 1, HOSTILE)]
        document["readiness"]["failing"] = [HOSTILE, "__proto__"]
        document["readiness"]["status"] = "constructor"

    documents(page, hostile)
    first = page.locator(".dependency").first
    expect(first).to_contain_text("<img src=x onerror=alert(1)>\u27e8U+202E\u27e9\u27e8U+200B\u27e9gnp.exe")
    expect(first.locator("a, img")).to_have_count(0)
    expect(page.locator(".names").first).to_contain_text("__proto__")
    expect(page.locator("main img")).to_have_count(0)
    page.evaluate("location.hash = '#/dependencies/<img>'")
    expect(page.get_by_role("complementary")).to_contain_text("This is no name of a dependency")


EVENTS = (
    ("idkmesh.dependency.changed", {"from": "ok", "to": "constructor", "detail": HOSTILE}, "Dependency unknown"),
    (
        "idkmesh.readiness.changed",
        {"from": "ready", "to": "not_ready", "failing": ["a", 7], "failing_total": 9},
        "Not ready",
    ),
    ("idkmesh.startup.succeeded", {"seconds": 1.5}, "Start succeeded"),
    ("idkmesh.liveness.failed", {"components": ["front"], "components_total": 1, "dependency_only": True}, "Stalled"),
    ("idkmesh.liveness.recovered", {"components": ["front"], "components_total": 1}, "No longer stalled"),
    ("idkmesh.slot.held", {"seconds": 12.5, "slots": 2}, "Place held for long"),
    (
        "idkmesh.matrix.reloaded",
        {"dependencies": 3, "kept": 2, "changed": 0, "added": 1, "removed": 0},
        "Matrix read again",
    ),
    ("idkmesh.matrix.refused", {"findings": 2, "line": 3, "column": 1, "what": "no"}, "Matrix refused"),
)


def test_events_of_health_have_words(watched: Watched, tower: Tower) -> None:
    """CT-8.4, HL-5.4: each event of health is told in words, whatever its data are."""
    page = watched.ready(tower, "events")
    for kind, data, _title in EVENTS:
        tower.emit(kind, data)
        tower.emit(kind, {}, subject="of-nothing")
    for kind, _data, title in EVENTS:
        expect(page.locator(".event .title", has_text=re.compile(f"^{title}$")).first).to_be_visible()
        expect(page.locator(".event .title", has_text=kind)).to_have_count(0)
    expect(page.locator(".event", has_text="a, 7 and 7 more")).to_have_count(1)
    expect(page.locator(".event", has_text="Line 3, column 1: no; 2 findings in all")).to_have_count(1)


# --- many, few, and the way there -------------------------------------------------------------------------------------


def test_a_thousand_are_usable(watched: Watched, tmp_path: Path) -> None:
    """CT-8.10: with a thousand a part is drawn and all are searched, and no task of the page holds it for a second."""
    there = tmp_path / "there"
    there.touch()
    missing = str(tmp_path / "missing")
    rows = tuple(
        row(f"svc-{number:04}", File(path=missing if number == 777 else str(there)), critical=False, interval_ms=60_000)
        for number in range(MANY)
    )
    with running(tmp_path / "events.sqlite3", matrix=matrix(*rows)) as tower:
        watched.allow(REFUSED)  # it starts
        page = watched.ready(tower)
        page.evaluate("""() => {
            window.long = [0];
            new PerformanceObserver(list => long.push(...list.getEntries().map(one => one.duration)))
                .observe({ entryTypes: ["longtask"] });
        }""")

        def full(document: dict[str, Any]) -> None:
            for item in document["items"]:
                item["results"] = [beat(second, "ok", second + 0.5, "found") for second in range(60)]

        documents(page, full)
        page.evaluate("location.hash = '#/dependencies'")
        expect(page.locator(".counts")).to_have_text(
            "1,000 dependencies: 999 ok, 1 failing, 0 unknown.", timeout=30_000
        )
        expect(page.locator(".dependency")).to_have_count(100)
        page.get_by_role("button", name="Show only what is not ok").click()
        expect(page.locator(".dependency")).to_have_count(1)
        expect(page.locator("#summary")).to_have_text("1 of 1,000 dependencies match")
        expect(page.locator("#said")).to_have_text("1 of 1,000 dependencies match")
        page.get_by_label("State").select_option("Any")
        page.get_by_role("searchbox").fill("svc-0999")
        expect(page.locator(".dependency .name a")).to_have_text("svc-0999")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Show more").click()
        expect(page.locator(".dependency")).to_have_count(200)
        expect(page.get_by_role("link", name="svc-0100", exact=True)).to_be_focused()
        assert page.evaluate("Math.max(...long)") < 4000
        page.unroute_all(behavior="wait")
        page.close()


def test_deep_link_and_keys(watched: Watched, tower: Tower) -> None:
    """CT-8.10, CT-8.8: a dependency has an address; the focus goes to it and back; j, k and the arrows do it all."""
    watched.allow("status of 404")
    page = watched.ready(tower)
    page.goto(f"{tower.origin}/#/dependencies/lease")
    panel = page.get_by_role("complementary")
    expect(panel.get_by_role("heading", level=2)).to_have_text("lease")
    expect(panel).to_be_focused()
    expect(page.get_by_role("link", name="lease", exact=True).last).to_have_attribute("aria-current", "true")
    panel.locator("summary").click()
    expect(panel.locator(".results li").first).to_contain_text("found")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(of(page, "lease").get_by_role("link")).to_be_focused()
    page.keyboard.press("j")
    expect(of(page, "cache").get_by_role("link")).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(panel.get_by_role("heading", level=2)).to_have_text("orders-db")
    page.goto(f"{tower.origin}/#/dependencies/nobody")
    expect(panel).to_contain_text("The matrix has no dependency of this name.")
    page.keyboard.press("/")
    page.keyboard.type("exp")
    expect(page.locator(".dependency")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator(".dependency")).to_have_count(5)


def test_a_row_with_the_focus_stays(watched: Watched, tower: Tower, world: World) -> None:
    """CT-8.10: what no longer matches stays while somebody is on it, and goes when the focus has gone."""
    page = watched.ready(tower, "dependencies")
    watched.allow(REFUSED)
    page.get_by_label("State").select_option("Ok")
    expect(page.locator(".dependency")).to_have_count(4)
    of(page, "orders-db").get_by_role("slider").focus()
    world.refuse()
    expect(of(page, "orders-db").locator(".state")).to_contain_text("Failing for")
    page.get_by_role("searchbox").focus()
    expect(page.locator(".dependency")).to_have_count(3)


@pytest.mark.parametrize(
    ("kind", "words"), [("own", "idkmesh control-tower --matrix FILE"), ("none", "names no dependency")]
)
def test_without_a_matrix(watched: Watched, tmp_path: Path, kind: str, words: str) -> None:
    """CT-8.10, HL-3.4: a tower that watches itself, or nothing, says how to give it a matrix."""
    given = room_for_files(str(tmp_path)) if kind == "own" else nothing_but_itself()
    with running(tmp_path / "events.sqlite3", matrix=given) as tower:
        page = watched.ready(tower, "dependencies")
        expect(page.locator("main")).to_contain_text(words)
        expect(page.locator(".dependency")).to_have_count(2 if kind == "own" else 0)
        judged(page, "Ready")
        page.close()


@pytest.mark.parametrize(
    "looks",
    [
        {"color_scheme": "light", "viewport": {"width": 1280, "height": 740}},
        {"color_scheme": "dark", "viewport": {"width": 360, "height": 740}},
        {"forced_colors": "active", "viewport": {"width": 360, "height": 740}},
    ],
    ids=["wide", "narrow", "forced"],
)
def test_everybody_can_read_it(browser: Browser, tmp_path: Path, world: World, looks: dict[str, Any]) -> None:
    """CT-8.8: axe-core finds nothing, at 360 px nothing scrolls sideways, and what can be pressed has its size."""
    world.refuse()
    width = looks["viewport"]["width"]
    with (
        running(tmp_path / "events.sqlite3", matrix=world.matrix()) as tower,
        watching(browser, reduced_motion="reduce", **looks) as watched,
    ):
        watched.allow(REFUSED, AWAY)
        page = watched.open(tower.link)
        for route in ("dependencies", "dependencies/orders-db", "overview", "stale"):
            if route == "stale":
                page.evaluate("location.hash = '#/dependencies'")
                page.route(LIST, lambda answer: answer.abort())
                expect(page.locator(".told")).to_have_attribute("data-stale", "")
            else:
                page.evaluate("route => { location.hash = route }", f"#/{route}")
                expect(page.get_by_role("heading", level=1)).to_be_visible()
            if "orders" in route:
                expect(page.get_by_role("complementary")).to_contain_text("Nothing listens")
            elif route != "overview":
                expect(page.locator(".dependency")).to_have_count(5)
            found = Axe().run(page)
            assert not found.violations_count, f"{route}: {found.generate_report()}"
            assert page.evaluate("document.documentElement.scrollWidth") <= width, route
            assert page.evaluate("document.querySelector('nav').scrollWidth") <= width, route
            assert page.evaluate(SMALL) == [], route
        page.close()


def test_a_small_service_is_not_overloaded(watched: Watched, tmp_path: Path, world: World) -> None:
    """CT-8.11, CT-8.1: the page asks one thing at a time, so a service with one place is not kept busy by it."""
    watched.allow(REFUSED, "Refused to apply style")
    limits = ServiceLimits(max_concurrent_requests=1)
    with running(tmp_path / "events.sqlite3", matrix=world.matrix(), limits=limits) as tower:
        page = watched.ready(tower, "dependencies")
        expect(page.locator(".dependency")).to_have_count(5)
        before = tower.server.usage().overloaded_total
        page.wait_for_timeout(4000)
        expect(page.locator(".live")).to_have_text("Live")
        assert tower.server.usage().overloaded_total - before <= 2
        page.close()
