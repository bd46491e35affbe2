"""The page of workloads, over control towers that supervise real processes.

Two towers run for all tests of this file: one whose processes are well, one where each is ill in its own way. What 20 s
make by contract is waited for once.

Some states cannot be had from processes, or not at will, and there the test answers in the route's place: what a
platform alone can say (no address, not ours, a load balancer's word), no pass made yet, a supervisor that hangs, a
lease of nobody, trackers that cannot be kept, thousands of instances, hostile names, a service that is older, that
refuses, is silent or says what no schema does. Those answers are documents that the real code makes of what a real
supervisor saw on a simulated platform (:class:`World`), changed where the test says so.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from idkmesh.workloads.declaration import DeclarationError, load_declaration
from idkmesh.workloads.document import module_list_document
from idkmesh.workloads.model import (
    Declaration,
    DesiredModule,
    LeaseSpec,
    ModuleKind,
    Readiness,
    SupervisorSpec,
)
from idkmesh.workloads.readiness_inspection import inspect_readiness
from idkmesh.workloads.record import Key
from idkmesh.workloads.service import Supervised
from tests.ui.support import REFUSED, WAIT, Tower, Watched, running, until, verdict, watching
from tests.ui.test_looks import SMALL
from tests.workloads.etcd_support import free_ports
from tests.workloads.process_support import SLEEPER
from tests.workloads.support import COULD_NOT, FAILS, PASSES, Game, declaration, module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Locator, Page, Request, Route

AWAY = r"net::ERR_"
MISSING = "status of 404"
LIST = "**/api/v1/modules"
JUDGE = "**/api/v1/inspect/readiness-command"
MANY = 1000
HOSTILE = "<img src=x onerror=alert(1)>\u202e\u200bgnp.exe"

DECLARED = declaration(
    module("web", instances=("web-1", "web-2"), port=8080),
    module("db", ModuleKind.STATEFUL, class_name="postgresql", instances=("db-1",), port=5432),
    module("cache", ModuleKind.SINGLETON, instances=("cache-1",)),
    module("worker", instances=tuple(f"worker-{number}" for number in range(1, 9))),
)

TURN = 60_000  # ms for what takes 20 s by contract, on a busy machine
RESTART = 180_000  # the same for what takes 80 s
UID = 65534
LISTENER = """
import socket, sys
with socket.socket() as server:
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("127.0.0.1", int(sys.argv[1])))
    server.listen()
    while True:
        server.accept()[0].close()
"""
CHECK = """#!/bin/sh
. "./$IDKMESH_INSTANCE"
"""
WELL, ILL, MISSING_PROGRAM, LEAVES_ONE = "exit 0", "exit 1", "exit 127", "sleep 1000 &"


class Real:
    """Processes in a folder. What the readiness command of each does stands in a file of its name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.chmod(0o755)  # commands run as nobody
        check = folder / "check"
        check.write_text(CHECK, encoding="utf-8")
        check.chmod(0o755)
        self.readiness = Readiness((str(check),), 5)

    def does(self, instance: str, what: str) -> None:
        written = self.folder / f"{instance}.new"
        written.write_text(what + "\n", encoding="utf-8")
        written.rename(self.folder / instance)

    def module(self, name: str, *does: str, kind: ModuleKind = ModuleKind.STATELESS, **more: Any) -> DesiredModule:
        """Declare one process for each thing that a command is to do."""
        for number, what in enumerate(does, 1):
            self.does(f"{name}-{number}", what)
        given: dict[str, Any] = {"argv": SLEEPER, "readiness": self.readiness, "cwd": str(self.folder)}
        return DesiredModule(name=name, kind=kind, driver="process", replicas=len(does), **(given | more))

    def supervised(self, *modules: DesiredModule) -> Supervised:
        """Supervise them, with the lease of this folder: another tower with it stands by."""
        lease = LeaseSpec(path=str(self.folder / "the-lease.sqlite3"))
        spec = SupervisorSpec(interval_s=2, lease=lease)
        return Supervised(Declaration(modules=modules, supervisor=spec), UID, self.folder / "modules.yaml")


def listener(port: int) -> tuple[str, ...]:
    return ("/usr/bin/python3", "-c", LISTENER, str(port))


def well(real: Real) -> Supervised:
    port, other = free_ports(2)
    return real.supervised(
        real.module("web", WELL, WELL, port=port, argv=listener(port)),
        real.module("db", WELL, kind=ModuleKind.STATEFUL, port=other, argv=listener(other)),
        real.module("cache", WELL, kind=ModuleKind.SINGLETON),
        real.module("worker", *[WELL] * 8),
    )


def ill(real: Real) -> Supervised:
    port, nobody = free_ports(2)
    return real.supervised(
        real.module("web", WELL, ILL, port=port, argv=listener(port)),
        real.module("db", ILL, kind=ModuleKind.STATEFUL, port=nobody),
        real.module("cache", ILL, kind=ModuleKind.SINGLETON),
        real.module("job", LEAVES_ONE),
        real.module("worker", MISSING_PROGRAM, WELL),
        real.module("gone", WELL, argv=("false",)),
    )


class Towers(NamedTuple):
    """Both towers, and the processes of the one where all are well, with what is supervised there."""

    well: Tower
    ill: Tower
    processes: Real
    supervised: Supervised


@pytest.fixture(scope="module")
def towers() -> Iterator[Towers]:
    """Start both at once: what one has to wait for the other waits for meanwhile."""
    with contextlib.ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        first, second = map(Real, folders)
        supervised = well(first)
        one = stack.enter_context(running(folders[0] / "events.sqlite3", supervised=supervised))
        other = stack.enter_context(running(folders[1] / "events.sqlite3", supervised=ill(second)))
        yield Towers(one, other, first, supervised)


def looked_at(watched: Watched, tower: Tower, route: str = "workloads") -> Page:
    """Open the page of a tower whose answers are its own."""
    return watched.ready(tower, route)


def all_well(page: Page) -> None:
    judged(page, "All 12 instances are healthy", TURN)


class World:
    """A supervisor whose passes the test makes; what the page is told is the document of this moment."""

    def __init__(self, folder: Path) -> None:
        self.game = Game(folder, DECLARED)
        platform = self.game.platform
        for name in ("web/web-1", "web/web-2", "db/db-1"):
            platform[name].port_health = True
        self.change: Callable[[dict[str, Any]], None] = lambda _document: None
        self.asked = 0

    def play(self, seconds: float) -> None:
        self.game.play(seconds)

    def document(self) -> dict[str, Any]:
        document = module_list_document(self.game.supervisor.snapshot(), self.game.clock.stamp())
        self.change(document)
        return document

    def serve(self, page: Page) -> None:
        def answer(route: Route) -> None:
            self.asked += 1
            route.fulfill(json=self.document())

        page.route(LIST, answer)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def opened(watched: Watched, tower: Tower, world: World, route: str = "workloads") -> Page:
    page = watched.ready(tower)
    world.serve(page)
    page.evaluate("route => { location.hash = route }", f"#/{route}")
    return page


def of(page: Page, name: str) -> Locator:
    """Return the row of a module."""
    return page.locator(".module").filter(has=page.locator(".name").get_by_role("link", name=name, exact=True))


def one(page: Page, name: str) -> Locator:
    """Return the line of an instance in the list."""
    return page.locator(".module .instance").filter(has=page.get_by_text(name, exact=True))


def judged(page: Page, words: str | re.Pattern[str], timeout: int = WAIT) -> None:
    expect(page.locator(".verdict .status")).to_have_text(words, timeout=timeout)


# --- what stands there ------------------------------------------------------------------------------------------------


def test_each_instance_says_how_it_is(watched: Watched, towers: Towers) -> None:
    """CT-8.12, AR-7.5: in the declaration's order, by module, both checks of each instance, and what it comes to."""
    page = looked_at(watched, towers.well)
    all_well(page)
    assert page.locator(".module .name a").all_inner_texts() == ["web", "db", "cache", "worker"]
    first = one(page, "web-1")
    expect(first.locator(".state")).to_have_text(
        re.compile(r"^Healthy for \d.*: port check and readiness command passing$")
    )
    expect(first.locator(".check")).to_have_text(["Port passes: connected", "Command passes: exit status 0"])
    expect(one(page, "worker-1").locator(".check").first).to_be_hidden()  # no port is declared
    expect(of(page, "worker").locator(".rest")).to_have_text("and 3 more, all healthy: open the module to see them")
    expect(page.locator(".lease")).to_have_text(
        re.compile(r"^This supervisor holds the lease as \S+:\d+: it asks the instances, and restarts what is due\.$")
    )
    expect(page.locator(".pass")).to_have_text(re.compile(r"^The last pass began .+ ago.*; one begins each 2 s\.$"))
    expect(page.locator(".live")).to_have_text(re.compile("^Live"))


def test_the_way_to_another_health(watched: Watched, towers: Towers) -> None:
    """CT-8.12, AR-7.5, AR-4.1, AR-5.1: how far failures have come, how long until a restart, and the way back."""
    page = looked_at(watched, towers.well)
    all_well(page)
    line = one(page, "web-2")
    steps = line.locator(".step .words")
    try:
        towers.processes.does("web-2", ILL)
        expect(steps.first).to_have_text(re.compile(r"^\d+ of 20 s failing$"))
        expect(line.locator(".check").last).to_have_text("Command fails: exit status 1")
        expect(steps.last).to_have_text(re.compile(r"^unhealthy for \d+ s of 60 s, then restarted$"), timeout=TURN)
        judged(page, "1 instance is unhealthy")
        expect(page.locator(".names").first).to_have_text("Unhealthy in: web")
        expect(line.locator(".state")).to_contain_text("readiness command failing")
    finally:
        towers.processes.does("web-2", WELL)
    expect(steps.first).to_have_text(re.compile(r"^\d+ of 20 s passing$"))
    all_well(page)
    expect(line.locator(".figure:visible")).to_have_count(0)  # nobody has restarted it


def test_a_restart(watched: Watched, towers: Towers) -> None:
    """CT-8.12, AR-7.5, AR-5.1, AR-5.2: restarts, what is left of the cooldown, and that others wait, are said."""
    page = looked_at(watched, towers.ill)
    line = one(page, "web-2")
    cooldown = re.compile(r"^cooldown: \d+ s left$")
    expect(line.locator(".figure")).to_have_text([cooldown, "1 restart"], timeout=RESTART)
    of(page, "web").get_by_role("link").click()
    panel = page.get_by_role("complementary")
    words = "web-2 was restarted and is not healthy again: no other one is restarted until it is, or until its"
    expect(panel).to_contain_text(re.compile(f"{words} cooldown is over, in \\d+ s\\."))
    expect(panel).to_contain_text("a replica that has been unhealthy for 60 s is restarted")
    expect(panel).to_contain_text(re.compile(r"Last restart\d.* ago, \d\d:\d\d:\d\d: done"))
    # It fails on: unhealthy again, within the cooldown.
    expect(line.locator(".step .words").last).to_have_text(
        re.compile(r"s of 60 s, restarted no sooner than its cooldown ends$"), timeout=TURN
    )


def test_what_is_only_reported(watched: Watched, towers: Towers) -> None:
    """CT-8.12, AR-7.5, AR-1.1: of a stateful module and a singleton it is said that nobody restarts them."""
    page = looked_at(watched, towers.ill, "workloads/db")
    for name in ("db-1", "cache-1"):
        expect(one(page, name).locator(".step .words").last).to_have_text(
            "reported only, never restarted", timeout=TURN
        )
    judged(page, re.compile(r"^[23] instances are unhealthy$"))
    panel = page.get_by_role("complementary")
    expect(panel).to_contain_text("Stateful: reported only. It is never restarted")
    expect(panel.locator(".whole .rows")).to_contain_text("fails: refused")
    expect(panel.locator(".advice", has_text="Nothing listens at the port.")).to_have_count(1)
    expect(panel.locator("dt", has_text="Cooldown")).to_have_count(0)


def test_what_says_nothing_is_unknown(watched: Watched, towers: Towers) -> None:
    """CT-8.12, AR-7.5, AR-1.3, AR-3.4: unknown is never healthy, and each reason has its own word and its own mend."""
    page = looked_at(watched, towers.ill)
    expect(one(page, "job-1").locator(".check").last).to_have_text(
        re.compile("^Command misdeclared: a process that it has started held its output"), timeout=TURN
    )
    expect(one(page, "worker-1").locator(".check").last).to_contain_text("Command says nothing: exit status 127")
    expect(one(page, "gone-1").locator(".state")).to_contain_text("the instance is stopped", timeout=TURN)
    expect(page.locator(".names:visible").last).to_have_text(re.compile("^Unknown in: (web, )?job, worker, gone$"))
    panel = page.get_by_role("complementary")
    for name, words in (
        ("job", "Declare one that ends with all that it starts."),
        ("worker", "The program is missing in the instance"),
        ("gone", "Start it again, or take it out of the declaration."),
    ):
        page.evaluate("name => { location.hash = `#/workloads/${name}` }", name)
        expect(panel.locator(".advice", has_text=words)).to_have_count(1)


def test_what_a_platform_alone_can_say(watched: Watched, tower: Tower, world: World) -> None:
    """CT-8.12, AR-1.3, AR-3.5: a load balancer's word, no address, an instance that is not ours, a silent daemon."""
    platform = world.game.platform
    platform["web/web-1"].port_health = None
    platform["worker/worker-2"].owned = False
    platform["worker/worker-3"].run = COULD_NOT
    world.play(30)
    page = opened(watched, tower, world)
    judged(page, "It is not known how 2 instances are")
    expect(page.locator(".names:visible").last).to_have_text("Unknown in: worker")
    expect(one(page, "web-1").locator(".check").first).to_have_text("Port says nothing: no address")
    expect(one(page, "web-2").locator(".check").first).to_have_text(
        "Port passes: the load balancer takes it for healthy"
    )
    expect(one(page, "worker-2").locator(".check").last).to_have_text("Command not made: in the newest pass")
    page.evaluate("location.hash = '#/workloads/worker'")
    words = "its configuration does not say user.idkmesh.module: worker"
    expect(page.get_by_role("complementary").locator(".advice", has_text=words)).to_have_count(1)


def test_two_of_a_module_are_not_restarted_together(watched: Watched, tower: Tower, world: World) -> None:
    """CT-8.12, AR-5.2: of two that are on their way to a restart it is not said that both come to it."""
    for name in ("worker/worker-2", "worker/worker-3"):
        world.game.platform[name].run = FAILS
    world.play(30)
    page = opened(watched, tower, world)
    for name in ("worker-2", "worker-3"):
        words = re.compile(r"^unhealthy for \d+ s of 60 s, then restarted, one of the module at a time$")
        expect(one(page, name).locator(".step .words").last).to_have_text(words)


def test_another_replica_holds_a_restart_up_for_its_cooldown(watched: Watched, tower: Tower, world: World) -> None:
    """CT-8.12, AR-5.2: the next one waits for the one before, or the end of its cooldown: both are said."""
    platform = world.game.platform
    platform["worker/worker-2"].run = FAILS
    world.play(130)  # the first one is restarted, to no avail
    platform["worker/worker-3"].run = FAILS
    world.play(40)
    page = opened(watched, tower, world, "workloads/worker")
    step = one(page, "worker-3").locator(".step .words").last
    words = "restarted no sooner than worker-2 is healthy again or its cooldown is over, in"
    expect(step).to_have_text(re.compile(rf"^unhealthy for \d+ s of 60 s, {words} \d+ s$"))
    held = re.compile(r"no other one is restarted until it is, or until its cooldown is over, in \d+ s\.$")
    advice = page.get_by_role("complementary").locator(".advice", has_text="worker-2 was restarted")
    expect(advice).to_have_text(held)
    world.play(60)
    expect(step).to_have_text(re.compile(rf"^restart due: {words} \d+ s$"))

    def nearly(document: dict[str, Any]) -> None:
        workers = {each["name"]: each for each in document["items"][3]["instances"]}
        workers["worker-2"]["cooldown_seconds"] = 2.0
        workers["worker-3"]["restart_due_seconds"] = 30.0

    world.change = nearly
    expect(step).to_have_text(re.compile(r"^unhealthy for \d+ s of 60 s, then restarted"))


def test_a_module_without_an_instance(watched: Watched, tower: Tower, world: World) -> None:
    """CT-8.12, AR-1.3: what nobody has seen is not healthy: no verdict is good with it, and the panel says why."""
    world.play(30)

    def without(*names: str) -> Callable[[dict[str, Any]], None]:
        def change(document: dict[str, Any]) -> None:
            for each in document["items"]:
                if each["name"] in names:
                    each.update(instances=[], counts={"healthy": 0, "unhealthy": 0, "unknown": 0})

        return change

    world.change = without("cache")
    page = opened(watched, tower, world, "workloads/cache")
    judged(page, "cache has no instance that is seen")
    expect(page.locator(".verdict .lamp svg, .verdict .lamp .sign").first).not_to_have_class(re.compile("good"))
    expect(page.locator(".names:visible")).to_have_text("No instance seen of: cache")
    expect(of(page, "cache").locator(".size")).to_have_text("no instance seen")
    expect(of(page, "cache")).to_have_attribute("data-health", "unknown")
    expect(page.get_by_role("complementary").locator(".advice:visible")).to_have_text(
        re.compile("^No instance of it is seen, so nothing is known of it: .* or does not answer")
    )
    page.get_by_role("combobox", name="Health").select_option("Not healthy")
    expect(page.locator(".module .name a")).to_have_text("cache")
    page.get_by_role("combobox", name="Health").select_option("Any")
    world.change = without("cache", "db")
    judged(page, "2 modules have no instance that is seen")
    world.game.platform["worker/worker-3"].run = COULD_NOT
    world.game.clock.move(30)
    world.play(30)
    judged(page, re.compile("^It is not known how .* instance"))
    expect(page.locator(".names:visible").last).to_have_text("No instance seen of: db, cache")
    world.change = without("web", "db", "cache", "worker")
    judged(page, "No instance of 4 modules is seen")


def test_a_platform_that_tells_nothing(watched: Watched, tower: Tower, world: World) -> None:
    """CT-8.12, AR-7.2: its fault keeps the verdict from good at once, and the module's reason stands in its panel."""
    world.play(30)

    def silent(document: dict[str, Any]) -> None:
        document["platforms"] = [{"name": "lxd", "fault": HOSTILE}, {"name": "process", "fault": None}]
        for each in document["items"]:
            each["reason"] = f"lxd: {HOSTILE}" if each["name"] != "db" else None
        document["items"][2].update(instances=[], counts={"healthy": 0, "unhealthy": 0, "unknown": 0})

    world.change = silent
    page = opened(watched, tower, world, "workloads/web")
    judged(page, "cache has no instance that is seen")
    shown = "<img src=x onerror=alert(1)>\u27e8U+202E\u27e9\u27e8U+200B\u27e9gnp.exe"
    expect(page.locator(".beside:visible")).to_have_text(
        f"Told nothing of its instances in the newest pass: lxd ({shown})."
    )
    advice = page.get_by_role("complementary").locator(".advice:visible")
    expect(advice).to_have_text(f"Nothing new is known of its instances: lxd: {shown}.")
    page.evaluate("location.hash = '#/workloads/cache'")
    expect(advice).to_have_text(f"No instance of it is seen, so nothing is known of it: lxd: {shown}.")
    world.change = lambda document: document.update(platforms=[{"name": "lxd", "fault": "no"}])
    judged(page, "All 12 instances are healthy, as last known: lxd tells nothing now")


def test_what_fails_now_is_no_contradiction(watched: Watched, tower: Tower, world: World) -> None:
    """CT-8.12, AR-4.1: what is healthy and fails for less than 20 s is a warning in headline and row."""
    platform = world.game.platform
    world.play(30)
    for name in ("worker/worker-2", "web/web-1"):
        platform[name].run = FAILS
    world.play(15)
    page = opened(watched, tower, world)
    judged(page, "All 12 instances are healthy, 2 of them fail now")
    expect(page.locator(".counts")).to_contain_text("12 instances: 12 healthy (2 fail now), 0 unhealthy")
    line = one(page, "worker-2")
    expect(line.locator(".state")).to_have_text(
        re.compile(r"^Healthy for \d+ s, but its checks fail now: readiness command failing$")
    )
    expect(line).to_have_attribute("data-health", "warn")
    expect(of(page, "worker").locator(".size")).to_have_text("8 healthy, 1 fails now")
    world.play(15)
    judged(page, "2 instances are unhealthy")
    for name in ("worker/worker-2", "web/web-1"):
        platform[name].run = PASSES
    world.play(10)
    expect(line.locator(".state")).to_have_text(
        re.compile(r"^Unhealthy for \d+ s, but its checks pass now: readiness command passing$")
    )


def test_a_standby(watched: Watched, towers: Towers, tmp_path: Path) -> None:
    """CT-8.12, AR-7.5, AR-6.4: it says who holds the lease, and that it asks and restarts nothing."""
    with running(tmp_path / "events.sqlite3", supervised=towers.supervised) as second:
        page = looked_at(watched, second)
        judged(page, "Standby: another supervisor acts")
        expect(page.locator(".lease")).to_contain_text(
            re.compile(r"^\S+:\d+ holds the lease\. This supervisor asks nothing")
        )
        expect(page.locator(".lease")).to_contain_text("where a tower holds it, that tower's page shows the instances.")
        expect(of(page, "web").locator(".size")).to_have_text("not asked by this supervisor")
        page.evaluate("location.hash = '#/workloads/web'")
        expect(page.get_by_role("complementary").locator(".advice:visible")).to_have_text(
            "This supervisor is on standby: it asks for no instances."
        )
        expect(page.locator(".counts")).to_be_hidden()
        page.close()


def test_who_acts(watched: Watched, tower: Tower, world: World, tmp_path: Path) -> None:
    """CT-8.12: that no pass was made, that nobody is known to hold the lease, that trackers are lost, that it hangs."""
    page = opened(watched, tower, world)
    judged(page, "Starting: no pass has been made")
    world.change = lambda document: document["lease"].update(role="standby", held=False, holder=None)
    judged(page, "Standby: nobody is known to hold the lease")
    folder = tmp_path / "another"
    folder.mkdir()
    world.game = Game(folder, DECLARED)
    world.play(30)
    world.change = lambda document: document.update(store_fault="the disk is full")
    expect(page.locator(".beside:visible")).to_have_text(re.compile("begins with nothing: the disk is full.$"))
    world.game.clock.move(600)
    expect(page.locator(".pass")).to_contain_text(
        re.compile(r"^The last pass began 10 min .*or the supervisor hangs\.$")
    )
    judged(page, "It is not known how 12 instances are")


@pytest.mark.parametrize("kind", ["absent", "undeclared", "empty"])
def test_without_modules(watched: Watched, tmp_path: Path, kind: str) -> None:
    """CT-8.12, AR-7.2: without a declaration the page says how to give one, and an empty one is not called missing."""
    watched.allow(MISSING)
    supervised = Real(tmp_path).supervised() if kind == "empty" else None
    with running(tmp_path / "events.sqlite3", supervised=supervised) as tower:
        page = watched.ready(tower)
        if kind == "absent":  # a tower of before
            error = {"error": {"code": "not_found", "message": "No such path."}}
            page.route(LIST, lambda route: route.fulfill(status=404, json=error))
        page.evaluate("location.hash = '#/workloads'")
        words = "names no module" if kind == "empty" else "No modules: start with idkmesh control-tower --modules FILE."
        expect(page.locator("#empty")).to_contain_text(words)
        expect(page.locator(".verdict")).to_be_hidden()
        page.get_by_role("link", name="Application check").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Application check")
        page.close()


def test_the_overview_names_what_tells_nothing(watched: Watched, towers: Towers) -> None:
    """CT-8.3, CT-5.8: neither a platform that tells nothing nor a module without an instance is called well there."""

    def change(route: Route) -> None:
        document = (answer := route.fetch()).json()
        short = document["operations"]["workloads"]
        short["platforms"] = [{"name": "lxd", "fault": "no"}]
        short["instances"] = {"healthy": 0, "unhealthy": 0, "unknown": 0}
        route.fulfill(response=answer, json=document)

    page = watched.open(towers.well.link)
    page.route("**/api/v1/status", change)
    expect(page.get_by_role("link", name="4 modules, no instance seen, lxd tells nothing")).to_be_visible()
    page.unroute_all(behavior="ignoreErrors")


def test_the_overview_names_them(watched: Watched, tower: Tower, towers: Towers) -> None:
    """CT-8.3, CT-5.8: the overview says how workloads are where there are some, with a way to their page."""
    page = watched.ready(tower)
    expect(page.locator(".supervises")).to_be_hidden()
    page.close()
    page = watched.ready(towers.ill)
    expect(
        page.get_by_role("link", name=re.compile(r"^6 modules, \d instances unhealthy, \d instances unknown$"))
    ).to_be_visible(timeout=TURN)
    page.close()
    page = watched.ready(towers.well)
    link = page.get_by_role("link", name="4 modules, 12 instances healthy")
    expect(link).to_be_visible(timeout=TURN)
    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Workloads")


# --- never live when it is not ----------------------------------------------------------------------------------------


def test_refused_and_lost_turn_grey(watched: Watched, towers: Towers) -> None:
    """CT-8.13, CT-8.11: a refusal is told with when it is asked again; the figures stand still and grey."""
    watched.allow(REFUSED, AWAY)
    page = looked_at(watched, towers.well)
    all_well(page)
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
    still = one(page, "web-1").inner_text()
    assert "grayscale" in told.evaluate("one => getComputedStyle(one).filter")
    until(page, lambda: len(asked) == 2)
    assert one(page, "web-1").inner_text() == still
    page.unroute_all()
    expect(told).not_to_have_attribute("data-stale", "")


def test_asked_only_while_somebody_looks(watched: Watched, towers: Towers) -> None:
    """CT-8.13: nothing is asked for by another page, the form or a hidden tab, and at most once a second."""
    page = watched.ready(towers.well)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/api/v1/modules") else None)
    page.wait_for_timeout(1200)
    assert asked == []
    page.evaluate("""() => {
        window.starts = [];
        const ask = fetch;
        window.fetch = (path, ...more) => {
            if (path === "/api/v1/modules") starts.push(performance.now());
            return ask(path, ...more);
        };
    }""")
    page.evaluate("location.hash = '#/workloads'")
    until(page, lambda: page.evaluate("starts.length") >= 3)
    assert all(later - earlier > 990 for earlier, later in itertools.pairwise(page.evaluate("starts")))
    page.get_by_role("link", name="Application check").click()
    page.wait_for_timeout(500)  # what was out may still come
    before = len(asked)
    page.wait_for_timeout(1500)
    assert len(asked) == before
    page.get_by_role("link", name="Back to the modules").click()
    until(page, lambda: len(asked) > before)
    page.evaluate("""() => {
        Object.defineProperty(document, "visibilityState", { value: "hidden", configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }""")
    page.wait_for_timeout(500)
    before = len(asked)
    page.wait_for_timeout(1500)
    assert len(asked) == before


def test_hostile_words_are_text(watched: Watched, tower: Tower, world: World) -> None:
    """CT-8.1: whatever a name or a reason says is text, with what nobody sees written out, and no address."""
    world.play(30)

    def hostile(document: dict[str, Any]) -> None:
        document["lease"]["holder"] = HOSTILE
        document["store_fault"] = HOSTILE
        first = document["items"][0]
        first |= {"name": HOSTILE, "module_kind": "__proto__", "driver": HOSTILE, "restart_outstanding": HOSTILE}
        first["counts"] |= {"unhealthy": 1}
        instance = first["instances"][0]
        instance |= {"name": HOSTILE, "health": "constructor", "detail": HOSTILE, "restart_withheld": HOSTILE}
        instance["readiness_command"] |= {"outcome": "toString", "reason": HOSTILE}

    world.change = hostile
    page = opened(watched, tower, world)
    first = page.locator(".module").first
    expect(first).to_contain_text("<img src=x onerror=alert(1)>\u27e8U+202E\u27e9\u27e8U+200B\u27e9gnp.exe")
    expect(first.locator("a, img")).to_have_count(0)
    expect(page.locator("main img, .names a")).to_have_count(0)
    page.evaluate("location.hash = '#/workloads/<img>'")
    expect(page.get_by_role("complementary")).to_contain_text("This is no name of a module")


EVENTS = (
    ("instance.healthy", {"from": "unhealthy", "detail": "x"}, "Instance healthy again"),
    ("instance.unhealthy", {"from": "healthy", "detail": HOSTILE}, "Instance unhealthy"),
    ("instance.restart_requested", {"detail": "x", "unhealthy_seconds": 60.5}, "Restart due"),
    ("instance.restarted", {"detail": "x", "unhealthy_seconds": 60.5}, "Instance restarted"),
    ("instance.restart_failed", {"detail": "x", "unhealthy_seconds": 60, "outcome": "no"}, "Restart failed"),
    ("check.could_not_run", {"check": "port check", "reason": "no address"}, "Check says nothing"),
    ("check.could_not_run", {"driver": "lxd", "check": "platform", "reason": "no"}, "Platform tells nothing"),
    ("check.misdeclared", {"check": "readiness command", "reason": "x"}, "Command misdeclared"),
    ("lease.acquired", {"holder": "one", "ttl_s": 15}, "Lease acquired"),
    ("lease.lost", {"holder": "one", "reason": "given back"}, "Lease given back"),
    ("lease.lost", {"holder": "one", "reason": "it expired"}, "Lease lost"),
    ("modules.reloaded", {"modules": 3, "kept": 2, "changed": 0, "added": 1, "removed": 0}, "Declaration read again"),
    ("modules.refused", {"findings": 2, "line": 3, "column": 1, "what": "no"}, "Declaration refused"),
)


def test_events_of_workloads_have_words(watched: Watched, tmp_path: Path) -> None:
    """CT-8.4, AR-7.3: each event of workloads is told in words, whatever its data are, with a way to its module."""
    real = Real(tmp_path)
    of_no_check = real.supervised(real.module("web", WELL, readiness=None))  # so it changes nothing of its own
    with running(tmp_path / "events.sqlite3", supervised=of_no_check) as tower:
        page = looked_at(watched, tower, "events")
        for what, data, _title in EVENTS:
            of_module = {} if "driver" in data else {"module": "web", "instance": "web-1"}
            tower.emit(f"idkmesh.{what}", data | of_module, subject="web/web-1")
            tower.emit(f"idkmesh.{what}", {}, subject="of-nothing")
        for what, _data, title in EVENTS:
            expect(page.locator(".event .title", has_text=re.compile(f"^{title}$")).first).to_be_visible()
            expect(page.locator(".event .title", has_text=f"idkmesh.{what}")).to_have_count(0)
        page.locator(".event", has_text="web/web-1 is to be restarted: x, unhealthy for 61 s").click()
        page.get_by_role("complementary").get_by_role("link", name="web", exact=True).click()
        assert page.url.endswith("#/workloads/web")
        expect(page.get_by_role("complementary").locator(".changes li")).to_have_count(6)
        page.close()


# --- many, and the way there ------------------------------------------------------------------------------------------


def test_a_thousand_are_usable(watched: Watched, tower: Tower, tmp_path: Path) -> None:
    """CT-8.12: of a thousand modules a part is drawn and all are searched, and no task holds the page for a second."""
    world = World(tmp_path)
    declared = declaration(
        *(module(f"svc-{number:04}", instances=(f"i-{number:04}-a", f"i-{number:04}-b")) for number in range(MANY))
    )
    world.game = Game(tmp_path, declared)
    world.game.platform.instances_of[Key("svc-0777", "i-0777-b")].run = FAILS
    world.play(30)
    document = world.document()
    page = watched.ready(tower)
    page.evaluate("""() => {
        window.long = [0];
        new PerformanceObserver(list => long.push(...list.getEntries().map(one => one.duration)))
            .observe({ entryTypes: ["longtask"] });
    }""")
    page.route(LIST, lambda route: route.fulfill(json=document))
    page.evaluate("location.hash = '#/workloads'")
    expect(page.locator(".counts")).to_have_text(
        "1,000 modules, 2,000 instances: 1,999 healthy, 1 unhealthy, 0 unknown.", timeout=30_000
    )
    expect(page.locator(".module")).to_have_count(100)
    page.get_by_role("button", name="Show only what is not healthy").click()
    expect(page.locator(".module")).to_have_count(1)
    expect(page.locator("#summary")).to_have_text("1 of 1,000 modules match")
    expect(page.locator("#said")).to_have_text("1 of 1,000 modules match")
    page.get_by_role("combobox", name="Health").select_option("Any")
    page.get_by_role("searchbox").fill("i-0999-b")
    expect(page.locator(".module .name a")).to_have_text("svc-0999")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Show more").click()
    expect(page.locator(".module")).to_have_count(200)
    expect(page.get_by_role("link", name="svc-0100", exact=True)).to_be_focused()
    assert page.evaluate("Math.max(...long)") < 4000
    page.unroute_all(behavior="ignoreErrors")


def test_a_module_of_a_thousand_instances(watched: Watched, tower: Tower, world: World, tmp_path: Path) -> None:
    """CT-8.12: the list shows what is notable of a large module, and its panel draws the instances part by part."""
    world.game = Game(tmp_path, declaration(module(instances=tuple(f"w-{number}" for number in range(MANY)))))
    world.game.platform["web/w-900"].run = FAILS
    world.play(30)
    page = opened(watched, tower, world, "workloads/web")
    expect(page.locator(".module .instance .called")).to_have_text(["w-0", "w-1", "w-2", "w-3", "w-900"])
    panel = page.get_by_role("complementary")
    expect(panel.locator(".whole")).to_have_count(50)
    panel.get_by_role("button", name="Show more, 950 are left").click()
    expect(panel.locator(".whole")).to_have_count(100)
    expect(panel.locator(".whole").nth(50)).to_be_focused()


def test_deep_link_and_keys(watched: Watched, towers: Towers) -> None:
    """CT-8.12, CT-8.8: a module has an address; the focus goes to it and back; the keys do it all."""
    page = looked_at(watched, towers.well, "workloads/cache")
    panel = page.get_by_role("complementary")
    expect(panel.get_by_role("heading", level=2)).to_have_text("cache")
    expect(panel).to_be_focused()
    expect(of(page, "cache").get_by_role("link")).to_have_attribute("aria-current", "true")
    all_well(page)
    if not panel.locator("details").evaluate("one => one.open"):
        panel.locator("summary").click()
    expect(panel).to_contain_text(re.compile(r"Readiness command.*ago, took \d+ mspasses: exit status 0"))
    panel.focus()
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(of(page, "cache").get_by_role("link")).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(panel.get_by_role("heading", level=2)).to_have_text("db")
    page.evaluate("location.hash = '#/workloads/nobody'")
    expect(panel).to_contain_text("The declaration has no module of this name.")
    page.keyboard.press("/")
    page.keyboard.type("worker-8")
    expect(page.locator(".module")).to_have_count(1)
    page.keyboard.press("Escape")
    page.get_by_label("Kind").select_option("Stateful")
    expect(page.locator(".module .name a")).to_have_text("db")


# --- the form ---------------------------------------------------------------------------------------------------------


def form(watched: Watched, tower: Tower, sent: list[dict[str, Any]] | None = None) -> Page:
    page = watched.ready(tower)

    def note(request: Request) -> None:
        if sent is not None and request.url.endswith("/api/v1/inspect/readiness-command"):
            sent.append(dict(request.post_data_json or {}))

    page.on("request", note)
    page.evaluate("location.hash = '#/workloads/+check'")
    expect(page.get_by_label("Program", exact=True)).to_be_visible()
    return page


def error_of(page: Page, label: str) -> Locator:
    return page.locator(".field").filter(has=page.get_by_label(label, exact=True)).locator(".error")


YAML = "The YAML to paste"


def test_the_form_judges_as_one_types(watched: Watched, tower: Tower) -> None:
    """CT-8.14, AR-7.5, AR-2.3: each rule has plain words beside its field; none is wrong before it is touched."""
    sent: list[dict[str, Any]] = []
    page = form(watched, tower, sent)
    expect(page.locator(".outcome")).to_contain_text("Write the module's name and a program")
    expect(page.locator(".field .error:visible")).to_have_count(0)
    expect(page.get_by_role("button", name="Copy YAML")).to_be_disabled()
    page.get_by_role("button", name="Add an argument").click()
    expect(page.get_by_label("Argument 1", exact=True)).to_be_focused()
    for label, text, words in (
        ("Module", "Web", "A name has a-z and 0-9"),
        ("Module", "w" * 64, "It has 64 characters; 63 are the most."),
        ("Program", "a b", "A program has no spaces."),
        ("Program", "caf\u00e9", "A program has A-Z, a-z, 0-9 and _ . / + - alone."),
        ("Program", "/usr/bin/busybox", "This is a shell"),
        ("Program", "sh", "This is a shell"),
        ("Program", "/" * 201, "It has 201 characters; 200 are the most."),
        ("Program", "", "Write a program"),
        ("Argument 1", "a\tb", "It has a control character"),
        ("Argument 1", "\U0001f600" * 201, "It has 201 characters; 200 are the most."),
        ("Time limit in seconds", "16", "Write a whole number of seconds, 1 to 15."),
        ("Time limit in seconds", "0", "Write a whole number of seconds, 1 to 15."),
        ("Time limit in seconds", "2.5", "Write a whole number of seconds, 1 to 15."),
        ("Time limit in seconds", "5.0.0", "Write a whole number of seconds, 1 to 15."),
        ("Time limit in seconds", "15.5", "Write a whole number of seconds, 1 to 15."),
        ("Time limit in seconds", "0x5", "Write a whole number of seconds, 1 to 15."),
        ("Time limit in seconds", "", "Write a whole number of seconds, 1 to 15."),
    ):
        field = page.get_by_label(label, exact=True)
        field.fill(text)
        expect(error_of(page, label)).to_contain_text(words)
        expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".outcome")).to_have_text("4 fields have to be changed.")
    for label, text in (
        ("Module", "w" * 63),
        ("Program", "shellcheck"),
        ("Argument 1", "\U0001f600" * 200),
        ("Time limit in seconds", "15"),
    ):
        page.get_by_label(label, exact=True).fill(text)
        expect(error_of(page, label)).to_be_hidden()
    expect(page.locator(".outcome")).to_have_text("Accepted by the service. Nothing was changed: paste it yourself.")
    assert sent == [{"name": "w" * 63, "command": ["shellcheck", "\U0001f600" * 200], "timeoutSecs": 15}]


@pytest.mark.parametrize("text", ["5.0", "5.", "+5", "5.0e+0", "05", "5e0", "'5'", "16.0", "0.0"])
def test_the_form_and_the_loader_judge_alike(watched: Watched, tower: Tower, text: str) -> None:
    """AR-2.4, CT-8.14: as a time limit the form takes what a file may have there, and nothing else."""
    declared = (
        "schema_version: '0.1'\nkind: idkmesh-modules\nsupervisor: {lease: {sqlite: {}}}\nmodules:\n"
        "  - {name: web, kind: stateless, driver: process, replicas: 1, process: {argv: [a]},"
        f" readiness: {{command: [/bin/check], timeoutSecs: {text}}}}}\n"
    )
    try:
        accepted = bool(load_declaration(declared, "modules.yaml"))
    except DeclarationError:
        accepted = False
    page = form(watched, tower)
    page.get_by_label("Module", exact=True).fill("web")
    page.get_by_label("Program", exact=True).fill("/bin/check")
    page.get_by_label("Time limit in seconds").fill(text)
    outcome = "Accepted by the service." if accepted else "1 field has to be changed."
    expect(page.locator(".outcome")).to_contain_text(outcome)
    if accepted:
        expect(page.get_by_label(YAML)).to_contain_text("timeoutSecs: 5\n")


def test_what_is_pasted_fits_the_declaration(watched: Watched, towers: Towers) -> None:
    """CT-8.14: one line for a module that is declared; a new one is told as such, and has what is to be filled in."""
    watched.allow(AWAY)
    page = form(watched, towers.well)
    name, note = page.get_by_label("Module", exact=True), page.locator(".field .note").first
    pasted, where = page.get_by_label(YAML), page.locator(".checked .note")
    page.get_by_label("Program", exact=True).fill("/bin/check")
    page.get_by_role("button", name="Add an argument").click()
    argument = page.locator(".arguments .field")
    expect(argument).to_contain_text('It is empty, and the program gets it as such, "". Remove it if none is meant.')
    page.get_by_label("Argument 1", exact=True).fill('a, "b"')
    expect(argument.locator(".note")).to_be_hidden()
    for away in (False, True):  # as the service writes it, and as the page does
        if away:
            page.route(JUDGE, lambda route: route.abort())
        said = "The service does not answer" if away else "Accepted by the service."
        name.fill("web")
        expect(page.locator(".outcome")).to_contain_text(said)
        expect(note).to_have_text("A module of the declaration.")
        expect(where).to_contain_text("This line goes into the module web, indented as its other keys")
        line = pasted.inner_text().strip()
        assert "\n" not in line
        declared = yaml.safe_load(f"modules:\n  - name: web\n    kind: stateless\n    {line}\n    port: 1\n")
        assert declared["modules"][0]["readiness"] == {"command": ["/bin/check", 'a, "b"'], "timeoutSecs": 5}
        name.fill("wbe")
        expect(page.locator(".outcome")).to_contain_text(said)
        expect(note).to_contain_text("no module of this name: it is a new one, which needs kind, driver and more.")
        expect(where).to_contain_text("This is a new module for the list modules: fill in its kind and its driver")
        (row,) = yaml.safe_load(pasted.inner_text())
        assert list(row) == ["name", "kind", "driver", "readiness"]
        assert row["kind"] is row["driver"] is None  # which no check of the file lets pass


def test_what_is_declared_is_not_guessed(watched: Watched, tower: Tower) -> None:
    """CT-8.14: without a declaration, or while it is not told, nothing is said of a name, and it is asked for again."""
    watched.allow(REFUSED, AWAY)
    page = form(watched, tower)
    page.get_by_label("Module", exact=True).fill("web")
    page.get_by_label("Program", exact=True).fill("/bin/check")
    expect(page.locator(".outcome")).to_contain_text("Accepted by the service.")
    expect(page.locator(".checked .note")).to_contain_text("Where a module of that name is declared")
    expect(page.locator(".field .note").first).to_have_text("Its name in the declaration.")
    page.evaluate("location.hash = '#/overview'")
    answers: list[dict[str, Any]] = []
    page.route(LIST, lambda route: route.fulfill(**answers[0]) if answers else route.abort())
    page.evaluate("location.hash = '#/workloads/+check/web'")
    expect(page.get_by_label(YAML)).to_contain_text('- name: "web"')
    answers[:] = [{"json": {"lease": {"role": "holder"}, "items": [{"name": "web"}]}}]
    expect(page.locator(".field .note").first).to_have_text("A module of the declaration.")


def test_arguments_come_and_go(watched: Watched, tower: Tower) -> None:
    """CT-8.14, CT-8.8: eight arguments at most, each removed by its own button, and the focus stays near."""
    page = form(watched, tower)
    add = page.get_by_role("button", name="Add an argument")
    for number in range(1, 9):
        add.click()
        page.keyboard.type(f"a{number}")
    expect(add).to_be_disabled()
    expect(page.locator(".check-form")).to_contain_text("No more than these")
    page.get_by_role("button", name="Remove argument 3").click()
    expect(page.get_by_label("Argument 3", exact=True)).to_have_value("a4")
    expect(page.get_by_label("Argument 3", exact=True)).to_be_focused()
    expect(add).to_be_enabled()
    page.evaluate("location.hash = '#/overview'")
    page.evaluate("location.hash = '#/workloads/+check/db'")
    expect(page.get_by_label("Argument 7", exact=True)).to_have_value("a8")  # it is found again
    expect(page.get_by_label("Module", exact=True)).to_have_value("db")


ODD = ["-q", "no", "1e3", "{a: b}", 'it\'s "so"', "\\n", "# x", "", " \u00a0\u2028\u202e\ufeff", "\U0001f600\U000e0041"]


@pytest.mark.parametrize("whose", ["the page's", "the service's"])
def test_the_yaml_reads_back(watched: Watched, tower: Tower, whose: str) -> None:
    """CT-8.14, CT-6.6, AR-7.5: whatever an argument is, the lines that are copied say the same to a reader of YAML."""
    watched.allow(AWAY)
    page = form(watched, tower)
    if whose == "the page's":
        page.route(JUDGE, lambda route: route.abort())
    said = "The schema accepts it." if whose == "the page's" else "Accepted by the service."
    page.get_by_label("Module", exact=True).fill("on")
    page.get_by_label("Program", exact=True).fill("1.0")
    for part in (ODD[:8], ODD[8:]):
        for number, text in enumerate(part, 1):
            if page.get_by_label(f"Argument {number}", exact=True).count() == 0:
                page.get_by_role("button", name="Add an argument").click()
            page.get_by_label(f"Argument {number}", exact=True).fill(text)
        expect(page.get_by_label(YAML)).to_contain_text("readiness:")
        expect(page.locator(".outcome")).to_contain_text(said)
        page.get_by_role("button", name="Copy YAML").click()
        expect(page.locator("#said")).to_have_text("Copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        (row,) = yaml.safe_load(copied)
        assert (row["name"], row["readiness"]["timeoutSecs"]) == ("on", 5)
        assert row["readiness"]["command"][: len(part) + 1] == ["1.0", *part]
        assert copied.isascii() or "\u202e" not in copied
        page.get_by_role("button", name="Copied").wait_for(state="detached")


def test_the_service_has_the_last_word(watched: Watched, tower: Tower) -> None:
    """CT-8.14, CT-8.9: its findings stand beside the fields, its silence is said, and it is asked again by itself."""
    watched.allow(REFUSED, AWAY, MISSING)
    page = watched.ready(tower)
    answers: list[dict[str, Any]] = []
    finding = {"field": "command[1]", "rule": "x", "what": HOSTILE, "mend": "write another"}
    other = {"field": "", "rule": "y", "what": "the moon is full", "mend": "wait"}
    refusal = {"verdict": "refused", "findings": [finding, other], "yaml": None}
    page.route(JUDGE, lambda route: route.fulfill(**answers[0]) if answers else route.abort())
    page.evaluate("location.hash = '#/workloads/+check/web'")
    page.get_by_label("Program", exact=True).fill("/usr/bin/check")
    outcome = page.locator(".outcome")
    expect(outcome).to_contain_text("The schema accepts it. The service does not answer, so it has not judged it.")
    expect(page.get_by_label(YAML)).to_contain_text('command: ["/usr/bin/check"]')
    accepted = inspect_readiness(json.dumps({"name": "web", "command": ["x"]}).encode())
    answers[:] = [{"json": accepted | {"yaml": "- its: own\n"}}]
    expect(outcome).to_have_text("Accepted by the service. Nothing was changed: paste it yourself.")
    expect(page.get_by_label(YAML)).to_have_text("- its: own\n")
    answers[:] = [{"json": refusal}]
    page.get_by_role("button", name="Add an argument").click()
    expect(outcome).to_have_text("The service refuses it.")
    expect(error_of(page, "Argument 1")).to_contain_text("\u27e8U+202E\u27e9\u27e8U+200B\u27e9gnp.exe: write another")
    expect(page.locator(".findings")).to_have_text("the moon is full: wait")
    expect(page.get_by_role("button", name="Copy YAML")).to_be_disabled()
    answers[:] = [{"status": 404, "json": {"error": {"code": "not_found", "message": "No."}}}]
    page.keyboard.type("-q")
    expect(outcome).to_contain_text("This service does not judge checks: idkmesh modules check FILE does.")
    expect(page.locator("main img")).to_have_count(0)


def test_without_the_schema_nothing_is_called_right(watched: Watched, tower: Tower) -> None:
    """CT-8.14: while the schema has not come, or says more than the page knows, the page says so and asks on."""
    watched.allow(REFUSED, AWAY)
    page = watched.ready(tower)
    page.route(JUDGE, lambda route: route.abort())
    page.route("**/api/v1/schemas/readiness.json", lambda route: route.abort())
    page.evaluate("location.hash = '#/workloads/+check/web'")
    page.get_by_label("Program", exact=True).fill("/bin/sh")
    outcome = page.locator(".outcome")
    expect(outcome).to_contain_text("The schema has not come. It is asked for again by itself.")
    expect(page.get_by_role("button", name="Copy YAML")).to_be_disabled()
    page.unroute("**/api/v1/schemas/readiness.json")
    expect(error_of(page, "Program")).to_contain_text("This is a shell")
    page.close()
    page = watched.ready(tower)

    def unknown(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"dependentRequired": {}})

    page.route("**/api/v1/schemas/readiness.json", unknown)
    page.evaluate("location.hash = '#/workloads/+check/web'")
    page.get_by_label("Program", exact=True).fill("/bin/sh")
    expect(error_of(page, "Program")).to_contain_text("is a shell")  # by the service


# --- everybody --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "looks",
    [
        {"color_scheme": "light", "viewport": {"width": 1280, "height": 740}},
        {"color_scheme": "dark", "viewport": {"width": 360, "height": 740}},
        {"forced_colors": "active", "viewport": {"width": 360, "height": 740}},
    ],
    ids=["wide", "narrow", "forced"],
)
def test_everybody_can_read_it(browser: Browser, towers: Towers, looks: dict[str, Any]) -> None:
    """CT-8.8: axe-core finds nothing, at 360 px nothing scrolls sideways, and what can be pressed has its size."""
    width = looks["viewport"]["width"]
    with watching(browser, reduced_motion="reduce", **looks) as watched:
        watched.allow(REFUSED, AWAY, MISSING)
        page = watched.open(towers.ill.link)
        verdict(page, "Ready")
        page.evaluate("location.hash = '#/workloads'")
        expect(one(page, "db-1").locator(".step .words").last).to_have_text(re.compile("^reported"), timeout=TURN)
        expect(one(page, "job-1").locator(".check").last).to_contain_text("misdeclared")
        for route in ("workloads", "workloads/web", "workloads/+check", "stale"):
            page.evaluate("route => { location.hash = route }", "#/workloads" if route == "stale" else f"#/{route}")
            if route == "workloads/+check":
                page.get_by_role("button", name="Add an argument").click()
                page.get_by_label("Program", exact=True).fill("/bin/sh")
                expect(error_of(page, "Program")).to_contain_text("This is a shell")
            else:
                expect(page.locator(".module")).to_have_count(6)
            if route == "workloads/web":
                expect(page.get_by_role("complementary")).to_contain_text("Run the same command by hand")
            if route == "stale":
                page.route(LIST, lambda answer: answer.abort())
                expect(page.locator(".told")).to_have_attribute("data-stale", "")
            found = Axe().run(page)
            assert not found.violations_count, f"{route}: {found.generate_report()}"
            assert page.evaluate("document.documentElement.scrollWidth") <= width, route
            assert page.evaluate("document.querySelector('nav').scrollWidth") <= width, route
            assert page.evaluate(SMALL) == [], route
        page.close()


def test_labels_and_the_panel_fit(watched: Watched, towers: Towers) -> None:
    """CT-8.8: at 390 px each label has one line; a panel that scrolls inside fades out below and hides no end."""
    page = looked_at(watched, towers.well, "workloads/worker")
    all_well(page)
    page.set_viewport_size({"width": 390, "height": 740})
    heights = "[...document.querySelectorAll('.filters label')].map(one => one.offsetHeight)"
    assert len(set(page.evaluate(heights))) == 1
    page.set_viewport_size({"width": 1280, "height": 740})
    panel = page.get_by_role("complementary")
    assert panel.evaluate("one => one.scrollHeight > one.clientHeight")
    assert panel.evaluate("one => getComputedStyle(one, '::after').position") == "sticky"
    panel.evaluate("one => { one.scrollTop = one.scrollHeight }")
    room = "one => one.getBoundingClientRect().bottom - one.lastElementChild.getBoundingClientRect().bottom"
    assert panel.evaluate(room) >= 32


def test_every_width_has_room_for_the_bar(watched: Watched, towers: Towers) -> None:
    """CT-8.8: nothing scrolls sideways at any width from 360 px on: the bar has as many pages as there are."""
    page = looked_at(watched, towers.well)
    all_well(page)
    for width in (360, 420, 600, 740, 800, 900, 962, 1100):
        page.set_viewport_size({"width": width, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, width
        assert page.evaluate(
            "(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)(document.querySelector('nav'))"
        )
