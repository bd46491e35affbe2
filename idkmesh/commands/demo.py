"""``idkmesh demo``: something real to see, and what goes wrong in it (DM). The shell around :mod:`idkmesh.demo`."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from idkmesh import console
from idkmesh.console import EXIT_FAILED, CommandError
from idkmesh.demo import files
from idkmesh.demo.acts import Actor
from idkmesh.demo.children import Children
from idkmesh.demo.clients import Buyer, Sales
from idkmesh.demo.course import CALM_SECONDS, Course, Do, Phase, Said, Tone
from idkmesh.demo.faults import table
from idkmesh.demo.keys import END_OF_INPUT, Keys
from idkmesh.demo.output import is_terminal, output
from idkmesh.demo.ports import chosen
from idkmesh.demo.settings import Site
from idkmesh.demo.watching import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from idkmesh.demo.faults import Fault
    from idkmesh.demo.output import Output

START_SECONDS: Final = 60.0
"""Until all parts must be well."""

TURN_SECONDS: Final = 0.1
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
        self._previous: dict[int, object] = {}

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


def demo(request: Request, faults: Sequence[Fault] | None = None, calm: float = CALM_SECONDS) -> int:
    """Run the demo to its end, and return the exit code (DM-5.3).

    ``faults`` are those of its table unless given, with ``calm`` seconds between two. Raises :class:`CommandError`.
    """
    ends = Ends()
    with ends.heard():
        code = _run(request, faults, calm, ends)
        with contextlib.suppress(OSError, CommandError):  # nobody may read any more
            console.say("ended")
    return code


def _run(request: Request, faults: Sequence[Fault] | None, calm: float, ends: Ends) -> int:
    with contextlib.ExitStack() as stack:
        routed = importlib.util.find_spec("httpcore") is not None
        if not routed:
            console.say("without the package httpcore there is no router: pip install 'idkmesh[demo]'")
        site = Site(
            folder=stack.enter_context(_folder()),
            ports=chosen(request.port),
            python=Path(sys.executable).name,
            routed=routed,
        )
        token, router_token = _written(site)
        children = Children(site)
        stack.callback(children.close, ends.hurried)
        began = time.monotonic()
        until = math.inf if request.seconds is None else began + request.seconds
        course = Course(faults=tuple(faults or table(site.figures)), began=began, until=until, calm=calm)
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

    def start(self, token: str) -> None:
        """Start tower and adapter."""
        site = self._site
        self._link = f"{site.origin}/#token={token}"
        guarded = f"{site.origin}/ with the token in {site.folder / files.TOWER_TOKEN}"
        shown = self._link if is_terminal() else guarded
        router = "a router, " if site.routed else ""
        console.say(f"idkmesh demo: a control tower, {router}an adapter, and a shop of five processes")
        console.say(f"open {shown}")
        console.say(f"its files are in {site.folder}: look at them")
        self._watch = Watch(site, token)
        tower = self._children.start_tower()
        self._actor = Actor(site, tower, token)
        node_id = self._node_id()
        if node_id is not None:
            self._children.start_adapter(node_id)

    def run(self, stack: contextlib.ExitStack, router_token: str) -> int:
        """Go on until something ends it."""
        stack.enter_context(self._watch.looking())
        buyer = stack.enter_context(Buyer(self._site, router_token)) if self._site.routed else None
        keys = stack.enter_context(Keys())
        out = stack.enter_context(output(self._link, self._course.faults))
        if self._request.open_page:
            self._open()
        try:
            self._go_on(keys, out, buyer)
        finally:
            self._undo()
        course = self._course
        ended = Said(time.monotonic() - course.began, Tone.NOTE, f"ending: {course.tally}")
        with contextlib.suppress(OSError, CommandError):  # the terminal may be gone, and its going be why
            out.say(ended)
        return EXIT_FAILED if self._request.seconds is not None and course.tally.missed else 0

    def _go_on(self, keys: Keys, out: Output, buyer: Buyer | None) -> None:
        course = self._course
        while not self._ends.asked and (now := time.monotonic()) < course.until:
            self._children.refuse_an_end()
            seen = self._watch.seen
            if course.phase is Phase.STARTING and self._started(out, now) and buyer is not None:
                buyer.sales = Sales()  # what failed before is no news
            self._take(course.tick(now, seen), out)
            out.show(course, seen, None if buyer is None else buyer.sales, now)
            for key in keys.wait(TURN_SECONDS):
                self._press(key, out)

    def _started(self, out: Output, now: float) -> bool:
        unwell = self._watch.seen.unwell(routed=self._site.routed)
        if not unwell:
            self._take(self._course.well(now), out)
        elif now > self._course.began + START_SECONDS:
            raise CommandError(f"not all is well after {START_SECONDS:.0f} s: {', '.join(unwell)}")
        return not unwell

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
            self._open()

    def _open(self) -> None:
        import webbrowser  # noqa: PLC0415  few want it

        # In a thread of its own: a browser that runs in the terminal would keep everything else from going on.
        threading.Thread(target=webbrowser.open, args=(self._link,), daemon=True).start()

    def _undo(self) -> None:
        """Undo the fault that is on, before anything ends: what is stopped hears no signal."""
        if self._course.phase is Phase.FAULT and self._course.fault is not None:
            with contextlib.suppress(OSError):
                self._actor.undo(self._course.fault.name)

    def _node_id(self) -> str | None:
        """Return the node's id once the tower answers; None where the end came before."""
        until = time.monotonic() + START_SECONDS
        while not self._ends.asked:
            self._children.refuse_an_end()
            with contextlib.suppress(OSError, LookupError, TypeError, ValueError):
                return str(self._watch.document("node")["node"]["id"])
            if time.monotonic() > until:
                raise CommandError(f"the control tower does not answer after {START_SECONDS:.0f} s")
            time.sleep(TURN_SECONDS)
        return None


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Make a folder for this user alone, and remove it at the end (DM-1.4)."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="idkmesh-demo-")).resolve()
    except OSError as error:
        raise CommandError(f"cannot make a folder in {tempfile.gettempdir()}: {console.reason(error)}") from None
    try:
        yield folder
    finally:
        try:
            shutil.rmtree(folder)
        except OSError as error:
            console.complain(f"idkmesh: {folder} is not removed: {console.reason(error)}")


def _written(site: Site) -> tuple[str, str]:
    """Write all files, and return the tokens of tower and router."""
    tokens = {files.TOWER_TOKEN: secrets.token_urlsafe(32), files.ROUTER_TOKEN: secrets.token_urlsafe(32)}
    try:
        for name, text in files.all_files(site).items():
            (site.folder / name).write_text(text, encoding="utf-8")
        for name, token in tokens.items():
            with open(site.folder / name, "x", encoding="ascii", opener=_for_us_alone) as file:
                file.write(f"{token}\n")
    except (OSError, UnicodeError) as error:
        raise CommandError(f"cannot write into {site.folder}: {console.reason(error)}") from None
    return tokens[files.TOWER_TOKEN], tokens[files.ROUTER_TOKEN]


def _for_us_alone(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
