"""The page of the topology, of a tower whose router really observes a file, which the test changes under it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from idkmesh.router.configuration import read_configuration
from idkmesh.router.listener import listening
from idkmesh.service_runtime import ServiceLimits
from tests.functional.router_support import INVOCATIONS, TOKEN, Site, ask
from tests.router.agents import OK, answering
from tests.ui.support import REFUSED, WAIT, changed_answers, running, stream_held, until, verdict, watching
from tests.ui.support import TOKEN as SESSION
from tests.ui.test_looks import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page, Route

    from tests.router.agents import Agent
    from tests.ui.support import Tower, Watched

PROJECTION = "**/api/v1/topology"
AWAY = r"net::ERR_"
ECHO = "echo/1.0.0/r1"
OTHER = "billing/2.1.0-rc.1+7/blue"
MANY = 10_000
HOSTILE = "<img src=x onerror=alert(1)>\u202e\u200bgnp.exe"


class World:
    """A tower with a router that listens, the file that this observes, and an agent."""

    def __init__(self, tower: Tower, site: Site, agent: Agent | None) -> None:
        self.tower = tower
        self.site = site
        self._agent = agent
        server = tower.server
        router = server.router
        assert router is not None
        beside = listening(router, health=server.health, events=server.events.snapshot, limits=server.limits)
        server.route_on(beside)
        self.port = beside.server_port

    @property
    def agent(self) -> Agent:
        assert self._agent is not None
        return self._agent

    def declare(self, *releases: str, empty: tuple[str, ...] = ()) -> None:
        self.site.declare({release: [self.agent.url] for release in releases} | {release: [] for release in empty})

    def invoke(self, release: str = ECHO) -> int:
        agent, version, name = release.split("/")
        body = {"agentId": agent, "agentCardVersion": version, "releaseId": name, "input": 1}
        return ask(self.port, "POST", INVOCATIONS, json.dumps(body).encode()).status


@contextlib.contextmanager
def observing(folder: Path, *releases: str, empty: tuple[str, ...] = (), **options: Any) -> Iterator[World]:
    """Run a world in which these were declared before it began."""
    site = Site(folder)
    store = folder / "events.sqlite3"
    with answering(OK) as agent:
        site.declare({release: [agent.url] for release in releases} | {release: [] for release in empty})
        with running(store, router=read_configuration(site.config), **options) as tower:
            yield World(tower, site, agent)


@pytest.fixture
def world(watched: Watched, tmp_path: Path) -> Iterator[World]:
    """Give a world with two releases. Its pages are closed before it ends: they would see the drain."""
    with observing(tmp_path, ECHO, OTHER) as made:
        yield made
        watched.context.close()


def of(page: Page, name: str) -> Locator:
    """Return the row of a release."""
    return page.locator(".release").filter(has=page.get_by_role("link", name=name, exact=True))


def is_so(page: Page, name: str, word: str, revision: int) -> None:
    """Wait until a row says its state and its revision, and for how long it has been so."""
    how = "so" if word == "Unavailable" else "unchanged"
    words = re.compile(rf"^{word}: revision {revision}, {how} for \d+\s(s|min)")
    expect(of(page, name).locator(".state")).to_have_text(words, timeout=2 * WAIT)


def judged(page: Page, words: str) -> None:
    expect(page.locator(".verdict .status")).to_have_text(words)


def chip(page: Page, word: str) -> Locator:
    return page.get_by_role("group", name="Choose by state").get_by_role("button", name=re.compile(rf"^{word} "))


def weight(paragraph: Locator) -> int:
    """Return how bold it is."""
    return int(paragraph.evaluate("one => getComputedStyle(one).fontWeight"))


def projections_asked_for(page: Page) -> list[str]:
    """Return a list that grows with each question of the page for the projection."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/topology") else None)
    return asked


def beats(page: Page, tower: Tower, count: int) -> None:
    """Wait until the page has asked for the status some more times: it asks for each thing once a second."""
    for _ in range(count):
        with page.expect_response(f"{tower.origin}/api/v1/status"):
            pass


def documents(page: Page, change: Callable[[dict[str, Any]], None]) -> None:
    changed_answers(page, PROJECTION, change)


def seen(row: Locator, *states: str) -> None:
    """Wait until these states, and no others but what passes in a moment, are drawn in a strip."""
    for name in ("populated", "empty", "missing", "unavailable", "unknown"):
        path = row.locator(f".states path.{name}")
        expect(path).to_have_attribute("d", re.compile("^M") if name in states else "")


# --- what stands there ------------------------------------------------------------------------------------------------


def test_states_revisions_ages_and_transitions(watched: Watched, world: World) -> None:
    """RT-12.2, RT-3.1, RT-11.5: each release by state, revision and age; what becomes of it is drawn and told."""
    page = watched.ready(world.tower, "topology")
    expect(page.locator("#empty")).to_contain_text("No release is observed yet")
    assert (world.invoke(ECHO), world.invoke(OTHER)) == (200, 200)
    judged(page, "All 2 releases are populated")
    names = page.locator(".release .name a").all_inner_texts()
    assert names == [ECHO, OTHER]
    is_so(page, OTHER, "Populated", 1)
    expect(page.locator(".verdict .counts")).to_contain_text("The provider is file.")
    expect(page.locator(".verdict .beside")).to_contain_text("when the tower was started")
    page.evaluate("release => { location.hash = `#/topology/${release}` }", OTHER)
    panel = page.get_by_role("complementary")
    expect(panel.get_by_role("heading", level=2)).to_have_text(OTHER)
    expect(panel).to_contain_text("There is nothing to do.")
    seen(of(page, OTHER), "populated")

    world.declare(ECHO, empty=(OTHER,))
    is_so(page, OTHER, "Empty", 2)
    judged(page, "1 of 2 releases has no ready endpoint")
    expect(panel.locator(".advice")).to_contain_text("Start an instance of it")
    assert world.invoke(OTHER) == 503
    expect(panel.locator(".changes").last).to_contain_text("AGENT_UNAVAILABLE")

    world.declare(ECHO)
    is_so(page, OTHER, "Missing", 3)
    expect(panel.locator(".advice")).to_contain_text("Declare it there")
    world.site.releases.unlink()
    is_so(page, OTHER, "Unavailable", 3)
    judged(page, "2 of 2 releases are unavailable")
    expect(panel).to_contain_text("Why: the source could not be read.")
    world.declare(ECHO, OTHER)
    is_so(page, OTHER, "Populated", 1)  # of another session
    judged(page, "All 2 releases are populated")

    seen(of(page, OTHER), "populated", "empty", "missing", "unavailable")
    expect(of(page, OTHER).locator(".readout")).to_have_text(
        re.compile(r"^5 transitions, the newest .* ago: was unavailable$")
    )
    expect(panel.get_by_role("heading", name="5 transitions")).to_be_visible()
    moves = panel.locator(".changes").first.get_by_role("listitem")
    expect(moves).to_have_count(5)
    told = " ".join(moves.all_inner_texts())
    words = ("Populated", "was unavailable; revision 1; a new session", "Unavailable", "the source could not be read",
             "Missing", "Empty", "was populated; revision 2; for", "was initializing; revision 1")  # fmt: skip
    places = [told.index(word) for word in words]
    assert places == sorted(places)
    whole = page.content()
    assert world.agent.url.removeprefix("http://") not in whole
    assert TOKEN not in whole
    assert str(world.site.folder) not in whole

    moves.nth(3).get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Events")
    expect(page.get_by_role("complementary")).to_contain_text("Release empty")
    expect(page.locator(".event", has_text="Agent unavailable")).to_contain_text(f"{OTHER}: AGENT_UNAVAILABLE")


def test_what_a_row_and_the_panel_say_of_it(watched: Watched, world: World) -> None:
    """RT-12.2: bold is what is to be done; an invocation names no release again; a failure is told in the list too."""
    assert (world.invoke(ECHO), world.invoke(OTHER)) == (200, 200)
    page = watched.ready(world.tower, f"topology/{OTHER}")
    panel = page.get_by_role("complementary")
    advice, meaning = panel.locator(".advice"), panel.locator("p").first
    expect(advice).to_contain_text("There is nothing to do.")
    assert weight(advice) == weight(meaning)
    newest = panel.locator(".changes").last.locator(".text").first
    expect(newest).to_have_text(re.compile(r"^answered; status 200; populated at revision 1; "))
    boundary = page.locator(".verdict .boundary")
    expect(boundary).to_be_hidden()
    world.site.releases.unlink()
    for name in (ECHO, OTHER):
        expect(of(page, name).locator(".state")).to_have_text(
            re.compile("^Unavailable: .*; the source could not be read$")
        )
    expect(advice).to_contain_text("It is tried again by itself, every 5 s or sooner.")
    assert weight(advice) > weight(meaning)
    expect(boundary).to_contain_text("The provider file cannot be used: unreadable. The source could not be read. See")


def test_ages_go_on_between_answers(watched: Watched, world: World) -> None:
    """RT-12.2: the age counts from observedAt, and passes while nobody changes anything."""
    assert world.invoke() == 200
    page = watched.ready(world.tower, "topology")

    def long_ago(document: dict[str, Any]) -> None:
        for row in document["observations"]:
            row["observedAt"] = "2020-01-01T00:00:00.000Z"

    state = of(page, ECHO).locator(".state")
    expect(state).to_have_text(re.compile(r"unchanged for \d"))
    shown = state.inner_text()
    until(page, lambda: state.inner_text() != shown)
    documents(page, long_ago)
    expect(state).to_have_text(re.compile(r"unchanged for \d+\sd"))
    page.unroute_all(behavior="wait")


# --- where nothing is observed, or nothing is told --------------------------------------------------------------------


def test_without_a_router_the_page_says_so(watched: Watched, tower: Tower) -> None:
    """RT-12.2, RT-12.1: a tower without a router: the page says that, how to get one, and asks for nothing."""
    page = watched.open(tower.link)
    asked = projections_asked_for(page)
    verdict(page, "Ready")
    expect(page.locator(".routes")).to_be_hidden()
    page.evaluate("location.hash = '#/topology'")
    expect(page.locator("#empty")).to_contain_text("This tower runs no router")
    expect(page.locator("#empty")).to_contain_text("idkmesh control-tower --router FILE")
    expect(page.locator(".live")).to_have_text("There is nothing to ask for.")
    expect(page.locator("#main .verdict")).to_be_hidden()
    expect(page.get_by_role("searchbox")).to_be_hidden()
    page.evaluate("location.hash = '#/topology/echo/1.0.0/r1'")
    expect(page.get_by_role("complementary")).to_contain_text("No release of this name is observed.")
    beats(page, tower, 2)
    assert asked == []
    page.evaluate("location.hash = '#/overview'")
    expect(page.locator(".empty", has_text="Nothing was refused since the start.")).to_be_visible()


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        ("direct: {releases: []}", "name etcd, nacos or file there, and start the tower again"),
        (
            "file: {path: releases.json}, observe: false",
            "asks its provider file at each use, because its configuration",
        ),
    ],
)
def test_a_router_that_observes_nothing_is_told_by_its_reason(
    watched: Watched, tmp_path: Path, provider: str, words: str
) -> None:
    """RT-12.2, RT-11.4: no empty list pretends that something is observed; what to do instead is named."""
    site = Site(tmp_path, provider=provider)
    with running(tmp_path / "events.sqlite3", router=read_configuration(site.config)) as tower:
        world = World(tower, site, None)
        page = watched.open(tower.link)
        asked = projections_asked_for(page)
        verdict(page, "Ready")
        page.evaluate("location.hash = '#/topology'")
        expect(page.locator("#empty")).to_contain_text(words)
        judged(page, "The router asks its provider at each use")
        expect(page.locator(".verdict .counts")).to_contain_text(f"http://127.0.0.1:{world.port}")
        beats(page, tower, 2)
        assert asked == []
        page.close()


def test_a_tower_that_has_no_router_any_more(watched: Watched, world: World) -> None:
    """RT-12.2: what another start of the tower has not is shown no more, and what it has again is asked for again."""
    assert world.invoke() == 200
    page = watched.ready(world.tower, "topology")
    judged(page, "The one release is populated")

    def without(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"router": None})

    page.route("**/api/v1/status", without)
    expect(page.locator("#empty")).to_contain_text("This tower runs no router")
    expect(page.locator(".release")).to_have_count(0)
    expect(page.locator("main .verdict")).to_be_hidden()
    page.unroute_all(behavior="wait")
    judged(page, "The one release is populated")


def test_a_provider_that_cannot_be_used_is_told_without_a_release(watched: Watched, tmp_path: Path) -> None:
    """RT-12.2, CT-8.3, RT-10.2: on Overview, on Topology and by events: that, why, what to do, and its end."""
    with observing(tmp_path) as world:
        listens = f"http://127.0.0.1:{world.port}"
        page = watched.ready(world.tower)
        routes = page.locator(".routes")
        expect(routes).to_have_text(f"Router on {listens} ready, provider file")
        expect(routes.locator(".sign")).to_have_class(re.compile("good"))
        world.site.releases.unlink()
        expect(routes).to_have_text(f"Router on {listens} not ready: the provider file cannot be used: unreadable")
        expect(routes.locator(".sign")).to_have_class(re.compile("bad"))
        expect(page.locator(".latest")).to_contain_text("Provider lost")
        routes.get_by_role("link").click()
        judged(page, "The provider file cannot be used: unreadable")
        expect(page.locator(".verdict .boundary")).to_contain_text("The source could not be read. See that it is there")
        expect(page.locator(".verdict .counts")).to_have_text(
            f"The provider is file. Invocations go to {listens}, the router's own address."
        )
        expect(page.get_by_role("group", name="Choose by state")).to_be_hidden()
        expect(page.locator("#empty")).to_contain_text(f"POST {listens}/agent/v1/invocations")
        expect(page.locator("#empty")).to_contain_text("is refused with AGENT_UNAVAILABLE")
        assert str(world.site.folder) not in page.content()
        assert not Axe().run(page).violations_count
        world.declare(ECHO)
        judged(page, "No release is observed yet")
        expect(page.locator(".verdict .boundary")).to_be_hidden()
        page.evaluate("location.hash = '#/events'")
        expect(page.locator(".event", has_text="Provider back")).to_contain_text("file: can be used again")
        expect(page.locator(".event", has_text="Provider lost")).to_contain_text(
            "file: unreadable; its releases are unavailable"
        )
        page.close()


SIGNS_OF_INVOCATIONS = """async () => {
    const { TOPOLOGY_TYPES } = await import("/static/topology_events.js");
    const [, sign] = TOPOLOGY_TYPES["idkmesh.agent.invoked"];
    const of = (outcome, status) => sign({ outcome, status });
    return [
        of("answered", 200), of("answered", 404), of("answered", 503),
        of("AGENT_TRANSPORT_FAILED", null), of("<b>", null),
    ];
}"""


def test_the_sign_of_an_invocation(browser: Browser, tower: Tower) -> None:
    """RT-12.2: an agent that answered 503 has answered, and no green sign says that all is well."""
    page = browser.new_page()
    page.goto(f"{tower.origin}/static/icon.svg")
    assert page.evaluate(SIGNS_OF_INVOCATIONS) == ["good", "good", "warn", "bad", "bad"]
    page.close()


CAUSE_WORDS = """async () => {
    const { causeWords, countedWords, lostWords, routerLine } = await import("/static/pages/router_words.js");
    const router = { listen: null, provider: "etcd", observes: true, usable: false, cause: null };
    const known = ["unreachable", "silent", "refused", "unreadable", "malformed", "lost", "closed", "fault"];
    const causes = [...known, "<b>\u202e"];
    return {
        causes: causes.map(cause => lostWords({ ...router, cause }).join(" ")),
        malformed: causeWords("malformed"),
        counted: [null, router, { reconnects: 0, unreadable: 0, ignored: null }, { reconnects: 1 }].map(countedWords),
        all: countedWords({ reconnects: 2, unreadable: 1, ignored: 1234 }),
        none: [lostWords(null), lostWords({ ...router, usable: true })],
        first: routerLine(router, {}),
        draining: routerLine(router, { usage: { draining: true } }),
        store: routerLine({ ...router, usable: true }, { events: { failing: "full" } }),
    };
}"""


def test_the_words_of_each_cause(browser: Browser, tower: Tower) -> None:
    """RT-12.2, RT-5.4, CT-8.3: each cause has words and what to do; what nobody knows is text; ready is RT-9.3's."""
    page = browser.new_page()
    page.goto(f"{tower.origin}/static/icon.svg")
    told = page.evaluate(CAUSE_WORDS)
    assert len(set(told["causes"])) == 9
    for words in told["causes"]:
        assert re.match(
            r"the provider etcd cannot be used: \S+ [A-Z<].*\. .*\. It is tried again by itself, every", words
        )
    assert "\u202e" not in told["causes"][-1]
    assert told["malformed"] == "what the source says is malformed"
    assert told["counted"] == ["", "", "", "The connection to it was lost and made again 1 time."]
    assert told["all"] == (
        "The connection to it was lost and made again 2 times. "
        "1 record of instances cannot be read: the router's log says more. "
        "1,234 keys below its prefix are no release and no instance."
    )
    assert told["none"] == [None, None]
    assert told["first"] == ["idle", "Router not ready: the provider etcd has said nothing yet"]
    assert told["draining"] == ["warn", "Router draining"]
    assert told["store"] == ["bad", "Router not ready: the event store takes no events"]
    page.close()


def test_the_command_fetches_the_release_that_is_shown(watched: Watched, world: World) -> None:
    """RT-12.2, CT-8.6: its row alone, by a command that runs, which names the variable and not the token."""
    assert (world.invoke(ECHO), world.invoke(OTHER)) == (200, 200)
    page = watched.ready(world.tower, f"topology/{OTHER}")
    page.get_by_role("button", name="Copy as curl").click()
    command = page.evaluate("navigator.clipboard.readText()")
    assert command == page.get_by_role("group", name="The same as a curl command").inner_text()
    assert SESSION not in command
    if shutil.which("curl") and shutil.which("jq"):
        env = {"PATH": os.environ["PATH"], "IDKMESH_CONTROL_TOWER_TOKEN": SESSION}
        done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, timeout=60, check=True)
        row = json.loads(done.stdout)
        assert (f"{row['agentId']}/{row['agentCardVersion']}/{row['releaseId']}", row["state"]) == (OTHER, "populated")


def test_the_page_api_has_it_beside_the_dependencies(watched: Watched, world: World) -> None:
    """CT-8.6: what tells of one node's parts stands together."""
    page = watched.ready(world.tower, "api")
    together = page.locator("section", has=page.get_by_role("heading", name="Health, workloads and topology"))
    for path in ("/api/v1/dependencies", "/api/v1/modules", "/api/v1/topology", "/metrics"):
        expect(together).to_contain_text(path)
    rest = page.locator("section", has=page.get_by_role("heading", name="Documents and inspection"))
    expect(rest).not_to_contain_text(re.compile("v1/(modules|topology)"))


def test_what_is_no_longer_told_is_grey_and_has_an_age(watched: Watched, world: World) -> None:
    """RT-12.2, CT-8.11: without an answer all of it turns grey, says why and how old it is, and comes back."""
    watched.allow(AWAY)
    assert world.invoke() == 200
    page = watched.ready(world.tower, "topology")
    judged(page, "The one release is populated")
    page.route(PROJECTION, lambda answer: answer.abort())
    expect(page.locator(".told")).to_have_attribute("data-stale", "")
    expect(page.locator(".live")).to_contain_text(re.compile(r"does not answer.*Shown as of .* ago"))
    state = of(page, ECHO).locator(".state")
    shown = state.inner_text()
    page.wait_for_timeout(1100)
    assert state.inner_text() == shown  # nobody knows whether it went on
    page.unroute_all(behavior="wait")
    expect(page.locator(".told")).not_to_have_attribute("data-stale", "", timeout=2 * WAIT)
    expect(page.locator(".live")).to_have_text("Live")


def test_what_the_stream_did_not_bring_is_not_known(watched: Watched, tmp_path: Path) -> None:
    """RT-12.2: without a stream the states go on, and the time since is drawn as not known until it is."""
    watched.allow(REFUSED)
    with observing(tmp_path, ECHO, limits=ServiceLimits(max_sse_clients=1)) as world:
        assert world.invoke() == 200
        with stream_held(world.tower):
            page = watched.ready(world.tower, "topology")
            is_so(page, ECHO, "Populated", 1)
            beside = page.locator(".verdict .beside")
            expect(beside).to_contain_text(
                re.compile(r"The event stream is not open: what changed in the last .* is not known")
            )
            world.declare(empty=(ECHO,))
            is_so(page, ECHO, "Empty", 2)
            seen(of(page, ECHO), "populated", "unknown")
            expect(of(page, ECHO).locator(".readout")).to_contain_text("; not known for ")
        expect(beside).not_to_contain_text("not open", timeout=3 * WAIT)
        seen(of(page, ECHO), "populated", "empty")
        page.close()


def test_changes_that_were_too_many_to_tell_leave_a_hole(watched: Watched, world: World) -> None:
    """RT-12.2, RT-10.3: where the router told a number instead of changes, that time is not known, and is said."""
    assert world.invoke() == 200
    page = watched.ready(world.tower, "topology")
    seen(of(page, ECHO), "populated")
    facts = {"from": "populated", "to": "empty", "localRevision": 2}
    world.tower.emit("idkmesh.topology.changed", facts, subject=ECHO, source="/router")  # of another router
    expect(of(page, ECHO).locator(".state")).to_have_text(
        re.compile(r"for ([2-9]|\d\d|\d+\smin)")
    )  # a hole with a length
    world.tower.emit("idkmesh.topology.omitted", {"omitted": 7, "seconds": 10.0}, source="/control-tower")
    expect(page.locator(".verdict .beside")).to_contain_text("Too many changed at once")
    seen(of(page, ECHO), "populated", "unknown")
    expect(of(page, ECHO).locator(".readout")).to_have_text(re.compile(r"^1 transition, .*was initializing; not known"))


SPANS = """async ([events, told]) => {
    const { evidenceOf, spansOf } = await import("/static/pages/topology_spans.js");
    const type = what => `idkmesh.topology.${what}`;
    const made = events.map(([at, what, from, to]) =>
        evidenceOf({ type: type(what), subject: "a/1/r", time: new Date(at).toISOString(), data: { from, to } }));
    const spans = spansOf(made, { since: 100, until: 200, first: null, holes: [], ...told });
    return spans.map(({ from, to, state }) => [from, to, state]);
}"""

POPULATED = {"state": "populated", "observedAt": 50}
OPENED = [110, "opened", None, None]
HEARD = [110, "changed", "initializing", "populated"]
EMPTIED = [150, "changed", "populated", "empty"]

CASES: dict[str, tuple[list[list[Any]], dict[str, Any], list[list[Any]]]] = {
    "no event: it was so all the time": ([], {"now": POPULATED}, [[100, 200, "populated"]]),
    "none was observed when the tower was started, and no event says since when it is": (
        [],
        {"first": "none", "now": {"state": "empty", "observedAt": 130}},
        [[100, 130, "unknown"], [130, 200, "empty"]],
    ),
    "from its first use on": (
        [OPENED, HEARD, EMPTIED],
        {"first": "none", "now": {"state": "empty", "observedAt": 150}},
        [[100, 110, "none"], [110, 150, "populated"], [150, 200, "empty"]],
    ),
    "what was before the first event is what that says": (
        [EMPTIED],
        {"now": {"state": "empty", "observedAt": 150}},
        [[100, 150, "populated"], [150, 200, "empty"]],
    ),
    "two events that contradict each other": (
        [EMPTIED, [180, "changed", "missing", "populated"]],
        {"now": {"state": "populated", "observedAt": 180}},
        [[100, 150, "populated"], [150, 180, "unknown"], [180, 200, "populated"]],
    ),
    "the newest event contradicts what is told now": (
        [EMPTIED],
        {"now": {"state": "missing", "observedAt": 170}},
        [[100, 150, "populated"], [150, 170, "unknown"], [170, 200, "missing"]],
    ),
    "an event that came before the next answer": (
        [EMPTIED],
        {"now": POPULATED},
        [[100, 150, "populated"], [150, 200, "empty"]],
    ),
    "a hole": (
        [EMPTIED],
        {"holes": [{"from": 160, "to": 170}], "now": {"state": "empty", "observedAt": 150}},
        [[100, 150, "populated"], [150, 160, "empty"], [160, 170, "unknown"], [170, 200, "empty"]],
    ),
    "a hole that goes on": (
        [],
        {"holes": [{"from": 160, "to": 10_000}], "now": POPULATED},
        [[100, 200, "unknown"]],
    ),
    "closed and opened anew": (
        [[120, "closed", None, "empty"], [130, "opened", None, None], [130, "changed", "initializing", "populated"]],
        {"now": {"state": "populated", "observedAt": 130}},
        [[100, 120, "empty"], [120, 130, "none"], [130, 200, "populated"]],
    ),
    "a clock that was set back": (
        [EMPTIED, [140, "renewed", "empty", "populated"]],
        {"now": {"state": "populated", "observedAt": 140}},
        [[100, 200, "populated"]],
    ),
}


def test_a_state_is_drawn_where_events_vouch_for_it(browser: Browser, tower: Tower) -> None:
    """RT-12.2: between two events that say the same, and nowhere else; what the router tells now is the newest."""
    page = browser.new_page()
    page.goto(f"{tower.origin}/static/icon.svg")
    for name, (events, told, wanted) in CASES.items():
        assert page.evaluate(SPANS, [events, told]) == wanted, name
    page.close()


# --- many, hostile, and for everybody ---------------------------------------------------------------------------------


def test_ten_thousand_releases(watched: Watched, world: World) -> None:
    """RT-12.2: they are counted, chosen and found; 100 are drawn at first, 1,000 at most, and the rest is counted."""
    assert world.invoke() == 200
    page = watched.ready(world.tower)

    def many(document: dict[str, Any]) -> None:
        (row,) = document["observations"]
        document["observations"] = [
            row | {"releaseId": f"r{number:05}", "state": "empty" if number % 1000 == 7 else "populated"}
            for number in range(MANY)
        ]

    documents(page, many)
    page.evaluate("location.hash = '#/topology'")
    judged(page, "10 of 10,000 releases have no ready endpoint")
    expect(chip(page, "Populated")).to_have_text("Populated 9,990")
    expect(page.locator(".release")).to_have_count(100)
    expect(page.locator("#more")).to_have_text("Show more, 9,900 are left")
    chip(page, "Empty").click()
    expect(chip(page, "Empty")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#summary")).to_have_text("10 of 10,000 releases match")
    expect(page.locator("#said")).to_have_text("10 of 10,000 releases match")
    expect(page.locator(".release")).to_have_count(10)
    chip(page, "Empty").click()
    expect(chip(page, "All")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("searchbox").fill("r09999")
    expect(page.locator(".release .name a")).to_have_text("echo/1.0.0/r09999")
    page.keyboard.press("Escape")
    for more in range(2, 11):
        page.locator("#more").click()
        expect(page.locator(".release")).to_have_count(100 * more)
    expect(page.locator("#more")).to_be_hidden()
    expect(page.locator(".more")).to_contain_text("9,000 more match and are not drawn.")
    page.unroute_all(behavior="wait")


def test_what_is_told_is_text(watched: Watched, world: World) -> None:
    """RT-12.2, CT-8.1: a name that is none is text, no address; a state that nobody knows is shown as it is."""
    assert world.invoke() == 200
    page = watched.ready(world.tower)

    def hostile(document: dict[str, Any]) -> None:
        document["provider"] = HOSTILE
        document["observations"][0] |= {"agentId": HOSTILE, "state": "constructor", "observedAt": HOSTILE}

    documents(page, hostile)
    page.evaluate("location.hash = '#/topology'")
    row = page.locator(".release")
    expect(row).to_contain_text("<img src=x onerror=alert(1)>\u27e8U+202E\u27e9\u27e8U+200B\u27e9gnp.exe/1.0.0/r1")
    expect(row.locator(".state")).to_have_text("constructor: revision 1")
    expect(row.get_by_role("link")).to_have_count(0)
    page.evaluate("name => { location.hash = `#/topology/${name}` }", HOSTILE)
    expect(page.get_by_role("complementary")).to_contain_text("This is no name of a release")
    page.evaluate("location.hash = '#/topology/echo/1.0.0/none'")
    expect(page.get_by_role("complementary")).to_contain_text("No release of this name is observed.")
    assert page.locator("img").count() == 0
    page.unroute_all(behavior="wait")


def test_keys_and_addresses(watched: Watched, world: World) -> None:
    """RT-12.2, CT-8.8: a release has an address; the focus goes to it and back; j, k, / and Escape do it all."""
    assert (world.invoke(ECHO), world.invoke(OTHER)) == (200, 200)
    page = watched.ready(world.tower)
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.locator(".release")).to_have_count(2)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name=OTHER, exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary")
    expect(panel).to_be_focused()
    assert page.url.endswith(f"#/topology/{OTHER}")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(page.get_by_role("link", name=OTHER, exact=True)).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type("ECHO")
    expect(page.locator("#summary")).to_have_text("1 of 2 releases match")
    page.goto(f"{world.tower.origin}/#/overview")
    page.goto(f"{world.tower.origin}/#/topology")
    expect(page.get_by_role("searchbox")).to_have_value("ECHO")


@pytest.mark.parametrize(
    "looks",
    [
        {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
        {"color_scheme": "dark", "viewport": {"width": 360, "height": 740}},
    ],
)
def test_everybody_can_read_it(browser: Browser, tmp_path: Path, looks: dict[str, Any]) -> None:
    """RT-12.2, CT-8.8: axe-core finds nothing, at 360 px nothing scrolls sideways, and what is pressed has its size."""
    width = looks["viewport"]["width"]
    long = f"{'a' * 100}/1.0.0/{'r' * 100}"
    with (
        observing(tmp_path, ECHO, long, empty=(OTHER,)) as world,
        watching(browser, reduced_motion="reduce", **looks) as watched,
    ):
        watched.allow(REFUSED, AWAY)
        assert [world.invoke(one) for one in (ECHO, long, OTHER, "no/1/r")] == [200, 200, 503, 503]
        page = watched.ready(world.tower)
        for route in ("topology", f"topology/{long}", "stale"):
            if route == "stale":
                page.evaluate("location.hash = '#/topology'")
                page.route(PROJECTION, lambda answer: answer.abort())
                expect(page.locator(".told")).to_have_attribute("data-stale", "")
            else:
                page.evaluate("route => { location.hash = route }", f"#/{route}")
                expect(page.locator(".release")).to_have_count(4)
                expect(page.locator(".states").first).to_be_visible()
                page.locator("details.legend").evaluate("one => { one.open = true }")
            found = Axe().run(page)
            assert not found.violations_count, f"{route}: {found.generate_report()}"
            assert page.evaluate("document.documentElement.scrollWidth") <= width, route
            assert page.evaluate("document.querySelector('nav').scrollWidth") <= width, route
            assert page.evaluate(SMALL) == [], route
        page.close()
