"""``idkmesh demo``: something real to see, and what goes wrong in it (DM). The shell around :mod:`idkmesh.demo`."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from idkmesh import console
from idkmesh.console import EXIT_FAILED, CommandError
from idkmesh.demo import files
from idkmesh.demo.acts import Actor
from idkmesh.demo.browser import Browser
from idkmesh.demo.children import Children
from idkmesh.demo.clients import Buyer, Sales
from idkmesh.demo.course import CALM_SECONDS, Course, Do, Phase, Said, Tone
from idkmesh.demo.faults import table
from idkmesh.demo.folder import folder, remove_left, written
from idkmesh.demo.keys import END_OF_INPUT, Keys
from idkmesh.demo.output import is_terminal, output
from idkmesh.demo.ports import PAGE_PORT, chosen
from idkmesh.demo.settings import Site
from idkmesh.demo.watching import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from idkmesh.demo.output import Output

START_SECONDS: Final = 60.0
"""Until all parts must be well."""

TURN_SECONDS: Final = 0.1
GAP_SECONDS: Final = 5.0
"""A turn that takes longer was no turn: this process was stopped, or its terminal. The undoing of a fault takes 4 s."""

ENDING: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)
)


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line gives: None where it says nothing."""

    port: int | None = None
    seconds: float | None = None
    open_page: bool = False


class Ends:
    """What asks for the end: signals, ``q``, Ctrl-D."""

    def __init__(self) -> None:
        self.asked = 0

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Catch the signals for a while. One that is ignored stays so: under ``nohup`` a demo outlives its terminal."""
        heeded = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._note) for number in heeded}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def ask(self) -> None:
        """Ask for the end, or, the second time, for a quick one."""
        self.asked += 1

    def hurried(self) -> bool:
        """Say whether somebody has asked twice."""
        return self.asked > 1

    def _note(self, _number: int, _frame: object) -> None:
        self.ask()


def demo(request: Request) -> int:
    """Run the demo to its end, and return the exit code (DM-5.3). Raises :class:`CommandError`."""
    ends = Ends()
    with ends.heard():
        code = _run(request, ends)
        with contextlib.suppress(OSError, CommandError):  # nobody may read any more
            console.say("ended")
    return code


def _run(request: Request, ends: Ends) -> int:
    with contextlib.ExitStack() as stack:
        routed = importlib.util.find_spec("httpcore") is not None
        if not routed:
            console.say("without the package httpcore there is no router: pip install 'idkmesh[demo]'")
        for left in remove_left():
            console.say(f"removed {left}, which a demo has left that was killed")
        site = Site(
            folder=stack.enter_context(folder()),
            ports=chosen(request.port),
            python=Path(sys.executable).name,
            routed=routed,
        )
        token, router_token = written(site)
        children = Children(site)
        stack.callback(children.close, ends.hurried)
        began = time.monotonic()
        until = math.inf if request.seconds is None else began + request.seconds
        faults = table(site.figures, routed=routed)
        course = Course(faults=faults, began=began, until=until, calm=CALM_SECONDS)
        running = Running(site, children, ends, request, course)
        running.start(token)
        return running.run(stack, router_token)


class Running:
    """One demo, from the start of its parts to the end."""

    def __init__(self, site: Site, children: Children, ends: Ends, request: Request, course: Course) -> None:
        self._site = site
        self._children = children
        self._ends = ends
        self._request = request
        self._course = course
        self._buyer: Buyer | None = None
        self._adapted = False

    def start(self, token: str) -> None:
        """Start the tower; what needs its answers follows with them."""
        site = self._site
        self._link = f"{site.origin}/#token={token}"
        guarded = f"{site.origin}/ with the token in {site.folder / files.TOWER_TOKEN}"
        shown = self._link if is_terminal() else guarded
        router = "a router, " if site.routed else ""
        console.say(f"idkmesh demo: a control tower, {router}an adapter, a shop of five processes")
        console.say(f"open {shown}")
        console.say(f"its files are in {site.folder}: look at them")
        if self._request.port is None and site.ports.page != PAGE_PORT:
            console.say(f"port {PAGE_PORT} is in use, by another demo perhaps: this page is at {site.ports.page}")
        self._watch = Watch(site, token)
        self._browser = Browser(self._link)
        tower = self._children.start_tower()
        self._actor = Actor(site, tower, token)

    def run(self, stack: contextlib.ExitStack, router_token: str) -> int:
        """Go on until something ends it."""
        stack.enter_context(self._watch.looking())
        keys = stack.enter_context(Keys())
        out = stack.enter_context(output(self._link, self._course.faults, keyed=keys.read))
        if self._request.open_page:
            self._browser.open()
        try:
            self._go_on(keys, out, stack, router_token)
        finally:
            self._undo()
        course = self._course
        ended = Said(time.monotonic() - course.began, Tone.NOTE, f"ending: {course.tally}")
        with contextlib.suppress(OSError, CommandError):  # the terminal may be gone, and its going be why
            out.say(ended)
        return EXIT_FAILED if self._request.seconds is not None and course.tally.missed else 0

    def _go_on(self, keys: Keys, out: Output, stack: contextlib.ExitStack, router_token: str) -> None:
        course, turned = self._course, time.monotonic()
        while not self._ends.asked:
            now = time.monotonic()
            if now - turned > GAP_SECONDS:
                self._take(course.missed_time(now, now - turned), out)
            if now >= course.until:
                return
            turned = now
            self._children.refuse_an_end()
            if course.phase is Phase.STARTING:
                self._begin_others(stack, router_token)
                self._judge_start(out, now)
            seen = self._watch.seen
            self._take(course.tick(now, seen), out)
            if keys.in_front():
                out.show(course, seen, None if self._buyer is None else self._buyer.sales, now)
            else:
                out.hide()
            for line in self._browser.told():
                out.say(Said(now - course.began, Tone.NOTE, line))
            for key in keys.wait(TURN_SECONDS):
                self._press(key, out)
            if keys.stop_asked:
                out.hide()
                keys.suspend()

    def _begin_others(self, stack: contextlib.ExitStack, router_token: str) -> None:
        """Start the adapter, and the buyer, once the tower says who it is."""
        if self._adapted:
            return
        with contextlib.suppress(OSError, LookupError, TypeError, ValueError):  # it does not answer yet
            node_id = str(self._watch.document("node")["node"]["id"])
            self._children.start_adapter(node_id)
            self._adapted = True
            if self._site.routed:
                self._buyer = stack.enter_context(Buyer(self._site, router_token))

    def _judge_start(self, out: Output, now: float) -> None:
        course = self._course
        unwell = self._watch.seen.unwell(routed=self._site.routed)
        if not unwell:
            self._take(course.well(now), out)
            out.begin(now - course.began, course.calm)
            if self._buyer is not None:
                self._buyer.sales = Sales()  # what failed before is no news
        elif now > course.began + START_SECONDS:
            raise CommandError(f"not all is well after {START_SECONDS:.0f} s: {', '.join(unwell)}")

    def _take(self, things: Iterator[Said | Do] | Iterator[Said], out: Output) -> None:
        for thing in things:
            if isinstance(thing, Said):
                out.say(thing)
                continue
            try:
                (self._actor.undo if thing.undo else self._actor.begin)(thing.fault.name)
            except OSError as error:
                at = time.monotonic() - self._course.began
                out.say(Said(at, Tone.MISSED, f"{thing.fault.name}: it cannot be done: {console.reason(error)}"))

    def _press(self, key: str, out: Output) -> None:
        now, course = time.monotonic(), self._course
        wanted = next((fault for fault in course.faults if fault.key == key), None)
        if wanted is not None:
            self._take(course.ask_for(wanted, now, self._watch.seen), out)
        elif key in {"q", END_OF_INPUT}:
            self._ends.ask()
        elif key == "u":
            self._take(course.end_fault(now), out)
        elif key == "s":
            self._take(course.switch(now), out)
        elif key == "o":
            self._browser.open()

    def _undo(self) -> None:
        """Undo the fault that is on, before anything ends: what is stopped hears no signal."""
        if self._course.phase is Phase.FAULT and self._course.fault is not None:
            with contextlib.suppress(OSError):
                self._actor.undo(self._course.fault.name)
