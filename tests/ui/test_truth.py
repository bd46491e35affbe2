"""What the page says when the service is away, full, draining, new or silent. It never looks live when it is not."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from playwright.sync_api import expect

from idkmesh.control_tower import inspection_routes
from idkmesh.events.retention import Retention
from idkmesh.httpd.inspection import inspect_request
from idkmesh.service_runtime import ServiceLimits
from tests.ui.support import HEAD, REFUSED, STARTED, TOKEN, WAIT, live, running, stream_held, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest
    from playwright.sync_api import Route

    from tests.ui.support import Tower, Watched

AWAY = r"net::ERR_"
STYLE = "Refused to apply style"  # a refusal is JSON, which is no style sheet


@contextlib.contextmanager
def request_held(tower: Tower, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hold one place of the service: an inspection that does not end."""
    entered, leave = threading.Event(), threading.Event()

    def hold(*arguments: Any) -> Any:
        entered.set()
        leave.wait(20)
        return inspect_request(*arguments)

    monkeypatch.setattr(inspection_routes, "inspect_request", hold)
    head = f"POST /api/v1/inspect/http-request HTTP/1.1\r\n{HEAD % tower.port}"
    body = "Content-Type: message/http\r\nContent-Length: 1\r\n\r\nG"
    with contextlib.ExitStack() as clients:
        clients.callback(leave.set)
        deadline = time.monotonic() + 10
        while not entered.is_set():
            assert time.monotonic() < deadline, "the place was never free"
            client = clients.enter_context(socket.create_connection(("127.0.0.1", tower.port), timeout=WAIT / 1000))
            client.sendall((head + body).encode())
            # The page's own poll may hold the place at this moment: then this is refused, and asked again.
            until_either(entered, client)
        yield


def until_either(entered: threading.Event, client: socket.socket) -> None:
    """Wait until the request is being handled or is answered."""
    while not entered.wait(0.02) and not select.select([client], [], [], 0)[0]:
        pass


def test_overload(watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CT-8.9: with every place taken the page says so, its figures turn grey with their age, and it recovers."""
    watched.allow(REFUSED, STYLE)
    limits = ServiceLimits(max_concurrent_requests=1)
    with running(tmp_path / "events.sqlite3", limits=limits) as tower:
        page = watched.ready(tower)
        with request_held(tower, monkeypatch):
            verdict(page, "Overloaded")
            expect(page.locator("#explanation")).to_contain_text("Every place is taken.")
            expect(page.locator("body")).to_have_attribute("data-stale", "")
            expect(page.locator("#chip")).to_have_text(re.compile(r"^([3-9]|\d\d) s old$"))
            page.evaluate("location.hash = '#/events'")
            message = page.locator(".message[data-kind=warn]")
            expect(message).to_contain_text("Overloaded Every place is taken.")
            expect(message).to_contain_text(re.compile(r"Figures are \d+ s old\."))
            page.evaluate("location.hash = '#/overview'")
        verdict(page, "Ready")
        expect(page.locator("body")).not_to_have_attribute("data-stale", "")
        expect(message).to_have_count(0)
        expect(page.locator(".refusals")).to_contain_text("overloaded503")
        page.close()


def test_flood_between_two_looks(watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CT-8.3, CT-5.10: places that no look of the page saw taken are in the last minute, with who found no room."""
    watched.allow(REFUSED, STYLE)
    with running(tmp_path / "events.sqlite3", limits=ServiceLimits(max_concurrent_requests=3)) as tower:
        page = watched.ready(tower)
        with contextlib.ExitStack() as places:
            for _ in range(3):
                places.enter_context(request_held(tower, monkeypatch))
            verdict(page, "Overloaded")
        verdict(page, "Ready")
        card = page.locator(".gauge").first
        expect(card.locator(".figure")).to_have_text("1 of 3")
        expect(card).to_contain_text(re.compile(r"Last minute: at most 3\b"))
        expect(card.locator(".top")).to_have_text("3")
        refused = re.compile(r"[1-9]\d* requests? (was|were) refused for want of room in the last minute\.")
        expect(card).to_contain_text(refused)
        expect(page.locator("#explanation")).to_contain_text(refused)
        expect(page.locator("#explanation")).not_to_contain_text("has room")
        page.close()


def test_look_alone_claims_no_more(watched: Watched, tower: Tower) -> None:
    """CT-8.3: where the service does not tell its peaks the words say that the figure is that of each second's look."""
    page = watched.ready(tower)

    def without(route: Route) -> None:
        document = tower.server.status()
        del document["operations"]["peaks"]
        route.fulfill(json=document)

    words = page.locator(".gauge .note").first
    expect(words).to_have_text(re.compile(r"^Last minute: at most [1-9]"))
    page.route("**/api/v1/status", without)
    expect(words).to_have_text(re.compile(r"^Last minute, at each second's look: at most [1-9]"))


def test_page_loads_although_one_place_is_all_there_is(watched: Watched, tmp_path: Path) -> None:
    """CT-8.1: the modules are loaded one after the other, so the page does not overload a small service itself."""
    watched.allow(REFUSED, STYLE)
    with running(tmp_path / "events.sqlite3", limits=ServiceLimits(max_concurrent_requests=1)) as tower:
        watched.ready(tower).close()
        assert (
            tower.server.usage().overloaded_total <= 20
        )  # of 54 files: a place is freed a moment after its answer has come


def test_retry_after_is_honoured(watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CT-8.9, SSE-11: neither the poll nor the stream asks again before Retry-After, and chance spreads both."""
    watched.allow(REFUSED)
    limits = ServiceLimits(max_concurrent_requests=1, max_sse_clients=1, retry_after=2)
    with running(tmp_path / "events.sqlite3", limits=limits) as tower, stream_held(tower):
        page = watched.ready(tower, "events")
        page.evaluate("Math.random = () => 0.9")
        asked: dict[str, list[float]] = {"/api/v1/status": [], "/api/v1/events/stream": []}
        with request_held(tower, monkeypatch):
            expect(page.locator(".message[data-kind=warn]", has_text="Overloaded")).to_be_visible()
            # By the browser's own clock: when this process hears of it is another instant.
            page.on(
                "response", lambda told: asked.get(urlsplit(told.url).path, []).append(told.request.timing["startTime"])
            )
            page.wait_for_timeout(6500)
            expect(page.locator(".message[data-kind=warn]", has_text="Overloaded")).to_be_visible()
        page.close()
    for path, times in asked.items():
        assert len(times) >= 2, path
        assert times[-1] - times[-2] > 2_800, (path, times)


def test_seconds_that_were_not_measured(watched: Watched, tower: Tower) -> None:
    """CT-8.3: as many seconds as were missed are told, the line has a hole, and no wish for news adds samples."""
    watched.allow(AWAY)
    page = watched.ready(tower)
    words = page.locator(".gauge .note").first
    line = page.locator(".history .line").first
    page.evaluate("for (let n = 0; n < 20; n += 1) document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_timeout(300)
    assert page.evaluate("import('/static/state.js').then(({ state }) => state.samples.length)") <= 5
    page.route("**/api/v1/status", lambda route: route.abort())
    began = time.monotonic()
    page.wait_for_timeout(3200)
    least = time.monotonic() - began
    page.unroute_all()
    verdict(page, "Ready")
    most = time.monotonic() - began
    missed = int(re.search(r"(\d+) s not measured", words.inner_text())[1])  # type: ignore[index]
    assert least - 2.5 < missed < most + 1.5
    expect(line).to_have_attribute("d", re.compile("^M[^M]+M"))


def test_machine_that_slept(watched: Watched, tower: Tower) -> None:
    """CT-8.2: what was shown before a sleep of the machine is as old as the wall clock says."""
    watched.allow(AWAY)
    page = watched.ready(tower)
    page.route("**/api/v1/status", lambda route: route.abort())
    page.evaluate("{ const now = Date.now; Date.now = () => now() + 600_000; }")
    expect(page.locator("#chip")).to_have_text(re.compile(r"^10 min( \d+ s)? old$"))


def test_slow_question_does_not_hold_the_status_up(watched: Watched, tower: Tower) -> None:
    """CT-8.2: while another question of the page waits for its answer, the figures stay new."""
    page = watched.ready(tower, "inspect")
    waiting: list[Route] = []
    page.route("**/inspect/http-request", lambda route: waiting.append(route))  # noqa: PLW0108  it must be a function
    page.get_by_role("button", name="Two hosts").click()
    page.wait_for_timeout(3200)
    expect(page.locator("body")).not_to_have_attribute("data-stale", "")
    waiting[0].continue_()
    expect(page.locator(".verdict-card")).to_contain_text("Refused")


def test_stream_that_is_not_one(watched: Watched, tower: Tower) -> None:
    """CT-8.9: bytes that are no event, and a stream that never opens, each have a reason of their own."""
    page = watched.context.new_page()
    page.clock.install()
    page.route(
        "**/events/stream",
        lambda route: route.fulfill(status=200, content_type="text/event-stream", body="data: {not json\n\n"),
    )
    page.goto(tower.link)
    verdict(page, "Ready")
    page.evaluate("location.hash = '#/events'")
    expect(page.locator(".live")).to_contain_text("Stream not readable")
    page.unroute_all()
    opening: list[Route] = []
    page.route("**/events/stream", lambda route: opening.append(route))  # noqa: PLW0108  as above
    expect(page.locator(".live")).to_contain_text("Connecting")
    page.clock.fast_forward(9000)
    expect(page.locator(".live")).to_contain_text("Stream lost")
    page.unroute_all()
    page.clock.fast_forward(9000)
    live(page)


def test_restart_with_the_same_token(watched: Watched, tmp_path: Path) -> None:
    """CT-8.9: a restart is noticed and told; the stream goes on where it stopped, without loss or repeat."""
    watched.allow(REFUSED, AWAY)
    store = tmp_path / "events.sqlite3"
    with running(store) as tower:
        page = watched.ready(tower, "events")
        live(page)
        tower.emit("test.before", {})
        expect(page.locator(".event")).to_have_count(STARTED + 1)
        port = tower.port
    expect(page.locator(".message[data-kind=bad]")).to_contain_text("No answer")
    expect(page.locator(".live")).to_contain_text(re.compile("Stream lost|Service draining"))
    with running(store, port=port) as tower:
        live(page)
        tower.emit("test.after", {})
        expect(page.locator(".event").first).to_contain_text("test.after")
        expect(page.locator(".message[data-kind=info]")).to_contain_text("The service was started again at")
        shown = page.locator(".event .sequence").all_inner_texts()
        assert shown == [f"#{number}" for number in range(len(shown), 0, -1)]
        expect(page.locator(".event", has_text="Drain ended")).to_have_count(1)
        page.get_by_role("button", name="Dismiss").click()
        expect(page.locator(".message")).to_have_count(0)


def test_store_replaced(watched: Watched, tmp_path: Path) -> None:
    """CT-8.9: after a restart on another store the old events go, it is said why, and the new ones are live."""
    watched.allow(REFUSED, AWAY, "status of 400")
    with running(tmp_path / "one.sqlite3") as tower:
        page = watched.ready(tower, "events")
        live(page)
        tower.emit("test.old", {})
        expect(page.locator(".event").first).to_contain_text("test.old")
        page.keyboard.press("p")  # a pause of rows that mean nothing any more ends
        port = tower.port
    with running(tmp_path / "two.sqlite3", port=port) as tower:
        live(page)
        expect(page.locator(".message", has_text="The event store was replaced.")).to_have_count(1)
        expect(page.locator(".event", has_text="test.old")).to_have_count(0)
        tower.emit("test.new", {})
        expect(page.locator(".event").first).to_contain_text("test.new")


def test_position_given_up_by_retention(watched: Watched, tmp_path: Path) -> None:
    """CT-8.9, SSE-10: where events after the page's position are gone, the gap is told and the stream begins anew."""
    watched.allow(REFUSED, AWAY, "status of 410")
    store = tmp_path / "events.sqlite3"
    with running(store) as tower:
        page = watched.ready(tower, "events")
        live(page)
        port = tower.port
    verdict_gone = page.locator(".message[data-kind=bad]")
    expect(verdict_gone).to_contain_text("No answer")
    with running(store) as tower:
        for number in range(300):
            tower.emit("test.meanwhile", {"number": number})
        deadline = time.monotonic() + 10
        while tower.server.events.snapshot().newest < 300:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    with running(store, port=port, retention=Retention(event_retention_count=100)) as tower:
        tower.emit("test.after", {})
        expect(page.locator(".message", has_text="given up by retention")).to_have_count(1)
        live(page)
        expect(page.locator(".event", has_text="test.after")).to_have_count(1)


def test_any_other_refusal(watched: Watched, tower: Tower) -> None:
    """CT-8.9: a refusal that the page does not know is shown with its status, code and message."""
    watched.allow("status of 403")
    page = watched.ready(tower)
    error = {"code": "forbidden_host", "message": "This Host is not known."}
    page.route("**/api/v1/status", lambda route: route.fulfill(status=403, json={"error": error}))
    verdict(page, "Unexpected answer")
    expect(page.locator("#explanation")).to_contain_text("answered 403 forbidden_host: This Host is not known.")
    page.unroute_all()
    verdict(page, "Ready")


def test_not_ready_says_why(watched: Watched, tower: Tower) -> None:
    """CT-8.3: a service that is not ready says what fails, and what to look at."""
    watched.allow(REFUSED)
    page = watched.ready(tower)
    answer = {"status": "not_ready", "failing": ["event_store"], "warnings": []}
    page.route("**/readyz", lambda route: route.fulfill(status=503, json=answer))
    verdict(page, "Not ready")
    expect(page.locator(".why")).to_contain_text("event_store fails. The event store takes no events.")
    expect(page.locator(".probes")).to_have_text("AliveyesReadynoDrainingno")
    page.unroute_all()
    verdict(page, "Ready")


def test_drain(watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CT-8.9: a drain is told while it lasts, and the stream's end is called a drain."""
    watched.allow(REFUSED, AWAY)
    with running(tmp_path / "events.sqlite3") as tower:
        page = watched.ready(tower, "events")
        live(page)
        with request_held(tower, monkeypatch):
            tower.server.begin_drain()
            expect(page.locator(".message[data-kind=warn]")).to_contain_text("Draining")
            expect(page.locator(".live")).to_contain_text("Service draining")
            page.goto(f"{tower.origin}/#/overview")
            verdict(page, "Draining")
            expect(page.locator(".probes")).to_have_text("AliveyesReadynoDrainingyes")


def test_streams_are_all_taken(watched: Watched, tmp_path: Path) -> None:
    """CT-8.9, SSE-11: without a free stream the page says so, and is live soon after one is free, without a reload."""
    watched.allow(REFUSED)
    with running(tmp_path / "events.sqlite3", limits=ServiceLimits(max_sse_clients=1)) as tower:
        with stream_held(tower):
            page = watched.ready(tower, "events")
            expect(page.locator(".live")).to_contain_text("No free stream. Every stream is taken.")
            expect(page.locator(".message[data-kind=warn]")).to_contain_text("No free stream")
            tower.emit("test.unseen", {})
        freed = time.monotonic()
        live(page)
        assert time.monotonic() - freed < 30
        expect(page.locator(".event").first).to_contain_text("test.unseen")
        expect(page.locator(".message")).to_have_count(0)
        page.close()


def test_lifetime_of_a_stream_is_no_fault(watched: Watched, tmp_path: Path) -> None:
    """CT-8.9: a stream that ends after its lifetime is opened again at once, with no word and no loss."""
    limits = ServiceLimits(sse_max_stream=2, sse_heartbeat=0.5)
    with running(tmp_path / "events.sqlite3", limits=limits) as tower:
        page = watched.ready(tower, "events")
        live(page)
        page.evaluate("""() => {
            window.said = [];
            new MutationObserver(() => said.push(document.querySelector('.live').textContent))
                .observe(document.querySelector('.live'), { childList: true, subtree: true, characterData: true });
        }""")
        deadline = time.monotonic() + WAIT / 1000
        while tower.server.status()["operations"]["streams"]["opened_total"] < 3:
            assert time.monotonic() < deadline
            tower.emit("test.steady", {})
            page.wait_for_timeout(100)
        live(page)
        assert set(page.evaluate("said")) <= {"Live"}
        tower.emit("test.last", {})
        expect(page.locator(".event").first).to_contain_text("test.last")
        page.close()


def test_silent_stream_is_given_up(watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CT-8.9: after two missed heartbeats a stream counts as lost, and another is opened."""
    with running(tmp_path / "events.sqlite3") as tower:
        status = tower.server.status

        def told() -> dict[str, Any]:
            document = status()
            document["operations"]["limits"]["sse_heartbeat_seconds"] = 0.5  # promised, and not kept
            return document

        page = watched.ready(tower, "events")
        live(page)
        opened = status()["operations"]["streams"]["opened_total"]
        page.route("**/api/v1/status", lambda route: route.fulfill(json=told()))
        for _ in range(2):
            with page.expect_response("**/api/v1/status"):
                pass
        tower.emit("test.wake", {})
        expect(page.locator(".live")).to_contain_text("Two heartbeats were missed")
        page.unroute_all()
        live(page)
        assert status()["operations"]["streams"]["opened_total"] > opened
        page.close()


@contextlib.contextmanager
def command(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command itself, and give the process and the page's link."""
    environment = os.environ | {"IDKMESH_CONTROL_TOWER_TOKEN": TOKEN, "IDKMESH_STORE": str(folder / "events.sqlite3")}
    arguments = [sys.executable, "-m", "idkmesh", "control-tower", "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process, process.stdout.readline().removeprefix("open ").strip()
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(WAIT / 1000)


def test_stopped_service_turns_everything_grey(watched: Watched, tmp_path: Path) -> None:
    """CT-8.2: after two missed beats everything from the service is grey with its age; then it recovers."""
    watched.allow(AWAY)
    with command(tmp_path) as (process, link):
        page = watched.open(link)
        verdict(page, "Ready")
        process.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        expect(page.locator("body")).to_have_attribute("data-stale", "")
        assert 1.4 < time.monotonic() - stopped < 10.0
        expect(page.locator("#chip")).to_have_text(re.compile(r"^([3-9]|\d\d) s old$"))
        assert "grayscale" in page.locator(".facts").evaluate("element => getComputedStyle(element).filter")
        verdict(page, "No answer")
        page.evaluate("location.hash = '#/events'")
        expect(page.locator(".live")).not_to_have_text("Live")
        page.locator(".event").first.click()
        expect(page.get_by_role("complementary")).to_contain_text("datadigest")
        for part in (".event .sign.good", "#summary", ".filters", ".detail"):
            covered = page.locator(part).first.evaluate("one => getComputedStyle(one.closest('.told')).filter")
            assert "grayscale" in covered, part
        sign, soft = (
            page.locator(part).first.evaluate(f"one => getComputedStyle(one).{name}")
            for part, name in ((".event .sign.good", "backgroundColor"), ("#summary", "color"))
        )
        assert sign == soft
        for route in ("events", "inspect", "api"):
            page.evaluate("route => { location.hash = route }", f"#/{route}")
            told = page.locator(".told").first
            expect(told).to_be_attached()
            assert "grayscale" in told.evaluate("element => getComputedStyle(element).filter")
        process.send_signal(signal.SIGCONT)
        page.evaluate("location.hash = '#/overview'")
        verdict(page, "Ready")
        expect(page.locator("body")).not_to_have_attribute("data-stale", "")
        expect(page.locator("#chip")).to_have_text("Updated each second")
        page.close()
