"""Each page as a person meets it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from idkmesh.control_tower import assets
from idkmesh.service_runtime import limits_document
from tests.ui.support import until, verdict

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

    from tests.ui.support import Tower, Watched

STATIC = Path(assets.__file__).parent / "static"


def test_modules_are_loaded_one_after_the_other_and_all_are_served() -> None:
    """CT-8.1: what is served is what is there, and the loader names each module once."""
    there = {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()}
    assert there == {*assets.STATIC_TYPES, assets.PAGE}
    listed = re.findall(r'^  "([a-z_/]+)",$', (STATIC / "boot.js").read_text(), re.MULTILINE)
    modules = [name.removesuffix(".js") for name in assets.STATIC_TYPES if name.endswith(".js")]
    assert sorted([*listed, "boot"]) == sorted(modules)
    for position, name in enumerate(listed):
        needed = re.findall(
            r'^(?:import|\}).* from "(?:\.\.?/)+([a-z_/]+)\.js";$', (STATIC / f"{name}.js").read_text(), re.MULTILINE
        )
        folder = "pages/" if name.startswith("pages/") else ""
        for other in needed:
            assert {other, folder + other} & set(listed[:position]), f"{name} needs {other} before it"


def test_overview(watched: Watched, tower: Tower) -> None:
    """CT-8.3: the verdict, the probes behind it, the gauges with their limits, the limits in force, the store."""
    page = watched.ready(tower)
    expect(page.locator("#explanation")).to_have_text("The service answers and has room.")
    expect(page.locator(".probes")).to_have_text("AliveyesReadyyesDrainingno")
    gauges = page.locator(".gauge")
    expect(gauges).to_have_count(3)
    limits = tower.server.limits
    expect(page.get_by_role("meter", name="Requests in flight")).to_have_attribute(
        "aria-valuemax", str(limits.max_concurrent_requests)
    )
    expect(page.get_by_role("meter", name="Event streams")).to_have_attribute("aria-valuenow", "1")
    expect(page.locator(".rows.wide > div")).to_have_count(len(limits_document(limits)))
    store = page.get_by_role("heading", name="Event store").locator("xpath=..")
    expect(store).to_contain_text(tower.server.events.snapshot().epoch)
    expect(page.locator(".latest")).to_contain_text("Server started")
    # A second that the machine was late for is a gap in the line, which is right: a run of three anywhere will do.
    expect(page.locator(".history .line").first).to_have_attribute("d", re.compile(r"M[\d. ]+L[\d. ]+L[\d. ]+"))


def test_little_room_is_told(watched: Watched, tower: Tower) -> None:
    """CT-8.3: ready with little room says so, and which flag gives more; nothing used draws nothing."""
    page = watched.ready(tower)

    def pressed(route: Route) -> None:
        document = tower.server.status()
        limits = document["operations"]["limits"]
        document["operations"]["usage"] |= {"connections": limits["max_connections"], "sse_clients": 0}
        route.fulfill(json=document)

    page.route("**/api/v1/status", pressed)
    expect(page.locator("#explanation")).to_contain_text("raise --max-connections")
    verdict(page, "Ready")
    none = page.locator(".fill").nth(2)
    until(page, lambda: none.evaluate("one => one.getBoundingClientRect().width") < 1)


def test_refusals_say_what_to_do(watched: Watched, tower: Tower) -> None:
    """CT-8.3: what was refused stands there by its code, with how often and what to do."""
    watched.allow("status of 404")
    page = watched.ready(tower)
    expect(page.get_by_text("Nothing was refused since the start.")).to_be_visible()
    page.evaluate("fetch('/nowhere')")
    row = page.locator(".refusals tbody tr")
    expect(row).to_contain_text("not_found404")
    expect(row).to_contain_text("GET /api/v1/openapi.json lists the paths.")


CASES = [
    ("Two hosts", "Refused", "more than one Host", "RFC 9112 \u00a73.2", "H"),
    ("Bare line feed", "Refused", "", "RFC 9112", "LF"),
    ("Length and chunked", "Refused", "", "RFC 9112", ""),
    ("NUL in a value", "Refused", "", "RFC 9110", "NUL"),
]


def test_inspection_marks_the_byte(watched: Watched, tower: Tower) -> None:
    """CT-8.5: a refused request shows its reason, its clause, and its byte in place."""
    page = watched.ready(tower, "inspect")
    card = page.locator(".verdict-card")
    for name, word, message, clause, marked in CASES:
        with page.expect_response("**/inspect/http-request"):
            page.get_by_role("button", name=name, exact=True).click()
        expect(card).to_contain_text(word)
        expect(card).to_contain_text(message)
        expect(card).to_contain_text(clause)
        if marked:
            expect(page.locator("#offending")).to_have_text(marked)


def test_inspection_sends_what_was_asked_for(watched: Watched, tower: Tower) -> None:
    """CT-8.5: typed line ends go as CRLF unless they are wanted as typed, and escapes are bytes."""
    page = watched.ready(tower, "inspect")
    page.get_by_label("Raw request").fill("GET /a HTTP/1.1\nHost: localhost\nX-A: \\x41\n\n")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".verdict-card")).to_contain_text("Accepted")
    expect(page.locator(".fields")).to_have_text("Hostlocalhost" + "X-AA")
    page.get_by_label("Line ends as typed").check()
    page.get_by_role("button", name="Inspect", exact=True).click()
    expect(page.locator(".verdict-card")).to_contain_text("Refused")
    page.get_by_label("Read").uncheck()
    page.get_by_label("Line ends as CRLF").check()
    page.get_by_role("button", name="Inspect", exact=True).click()
    expect(page.locator(".fields")).to_have_text("Hostlocalhost" + "X-A\\x41")


def test_inspection_says_what_is_missing(watched: Watched, tower: Tower) -> None:
    """CT-8.5: bytes that end too early are incomplete, which is no refusal."""
    page = watched.ready(tower, "inspect")
    page.get_by_role("button", name="Not finished").click()
    expect(page.locator(".verdict-card h2")).to_contain_text("Incomplete")


def test_api_answers_live(watched: Watched, tower: Tower) -> None:
    """CT-8.6: an endpoint of the service's own description is asked, with status, fields, body and time."""
    page = watched.ready(tower, "api")
    expect(page.locator("summary", has_text="/api/v1/inspect/http-request").locator(".method")).to_have_text("POST")
    page.locator("summary", has_text="/api/v1/status").click()
    page.locator(".trial").get_by_role("button", name="Ask now").click()
    answer = page.locator(".answer")
    expect(answer.locator(".outcome")).to_have_text(re.compile(r"^200 OK\d+ ms, [\d.]+ KiB$"))
    expect(answer).to_contain_text("content-security-policy: default-src 'self'")
    expect(answer).to_contain_text('"kind": "idkmesh-control-tower-status"')


def test_api_ends_the_stream_that_it_opened(watched: Watched, tower: Tower) -> None:
    """CT-8.6: a stream is shown by its first bytes, and its place is free again."""
    page = watched.ready(tower, "api")
    page.locator("summary", has_text="/api/v1/events/stream").click()
    page.locator(".trial").get_by_role("button", name="Ask now").click()
    expect(page.locator(".answer")).to_contain_text(": the stream is open")
    page.goto(f"{tower.origin}/#/overview")
    expect(page.get_by_role("meter", name="Event streams")).to_have_attribute("aria-valuenow", "1")


def test_copied_commands_carry_a_variable(watched: Watched, tower: Tower) -> None:
    """CT-8.6, CT-2.6: a copied command names the variable, never the token."""
    page = watched.ready(tower, "api")
    page.locator("summary", has_text="/api/v1/schemas/").click()
    page.locator(".trial select").select_option("error.json")
    page.locator(".trial").get_by_role("button", name="Copy as curl").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == (
        f"curl -H \"Authorization: Bearer $IDKMESH_CONTROL_TOWER_TOKEN\" '{tower.origin}/api/v1/schemas/error.json'"
    )


def test_keys(watched: Watched, tower: Tower) -> None:
    """CT-8.8: the keys that `?` shows do what it says, can be turned off, and none is taken while somebody types."""
    watched.allow("status of 404")  # a service without a router has no resource of its topology
    page = watched.ready(tower)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Show the keys")
    expect(page.get_by_role("dialog")).to_contain_text("g then i or 6")
    switch = page.get_by_label("Keys of one letter")
    switch.uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    verdict(page, "Ready")
    page.get_by_role("button", name="Keys").click()
    switch.check()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    for pair, title in (
        ("e", "Events"),
        ("d", "Dependencies"),
        ("w", "Workloads"),
        ("t", "Topology"),
        ("i", "Inspect a request"),
        ("a", "API"),
        ("o", "Ready"),
    ):
        page.keyboard.press("g")
        page.keyboard.press(pair)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
    for digit, title in (
        ("2", "Events"),
        ("3", "Dependencies"),
        ("7", "API"),
        ("4", "Workloads"),
        ("5", "Topology"),
        ("6", "Inspect a request"),
    ):
        page.keyboard.press(digit)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
    page.keyboard.press("/")
    page.keyboard.type("g1?p")
    expect(page.get_by_label("Raw request")).to_have_value("g1?p")
    expect(page.get_by_role("heading", level=1)).to_have_text("Inspect a request")


def test_skip_link_and_landmarks(watched: Watched, tower: Tower) -> None:
    """CT-8.8: the first Tab reaches the skip link, which leads to the content and leaves the page as it is."""
    page: Page = watched.ready(tower, "api")
    page.reload()  # a change of page leads the focus to the content by itself
    expect(page.get_by_role("heading", level=1)).to_have_text("API")
    page.locator("body").press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    skip.press("Enter")
    expect(page.locator("main")).to_be_focused()
    assert page.url.endswith("#/api")
    for landmark in ("banner", "navigation", "main", "contentinfo"):
        expect(page.get_by_role(landmark)).to_have_count(1)
    expect(page.get_by_role("link", name="API", exact=True)).to_have_attribute("aria-current", "page")
