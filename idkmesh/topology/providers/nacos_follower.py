"""Follows the services of Nacos that are watched (RT-8), in a thread with a loop of its own.

Laws of this module:

1. One thread subscribes, hears and calls every sink.
2. ``_confirmed`` is what the link that is there has said. What an earlier link said is ``_stale``: nobody new hears it,
   and it has an end, when the boundary trusts that link no more, unless the new link has said something of it by then.
3. A push is newer than what came before it on its link. An answer is not: it is dropped where a push came since it was
   asked for, unless the server wrote it later.
4. What is said of a service that nobody watches just now is not kept, and what was known of it is forgotten: who
   watches it next hears what the server says then. Its subscription is ended, by the worker that also begins one anew.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import random
import time
from typing import TYPE_CHECKING, Any, Final

from idkmesh.topology.model import Cause, Failed, snapshot_of
from idkmesh.topology.provider import ProviderFailureError
from idkmesh.topology.providers.boundary import AGAIN_SECONDS, Boundary, Words, pause
from idkmesh.topology.providers.nacos_link import NacosError, NacosLink, NacosLogin
from idkmesh.topology.providers.nacos_service import (
    service_name,
    snapshot_of_service,
    target_of_service,
    time_of_service,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from idkmesh.topology.model import Snapshot, Target
    from idkmesh.topology.providers.nacos_service import NacosSettings
    from idkmesh.topology.providers.watches import Watches

BEAT_SECONDS: Final = 1.0
"""How often the server is asked whether it still knows the connection."""

AT_ONCE: Final = 32
"""Subscriptions that are asked for at a time. Each service has one worker: an end and what follows keep their order."""

ROUND_SECONDS: Final = 30.0
"""Within which each subscription is asked for anew, in case that a push was lost,"""
ROUND_PAUSE: Final = 0.02
"""but no more than fifty in a second."""

WORDS: Final = Words("nacos", "Nacos", "instances")

_NOTHING: Final = snapshot_of([])


class NacosFollower:
    """The thread's work. Any thread may call :meth:`wake` and :meth:`ask`."""

    def __init__(self, settings: NacosSettings, watches: Watches, boundary: Boundary) -> None:
        self.boundary = boundary
        self._settings = settings
        self._watches = watches
        self._loop = asyncio.new_event_loop()
        self._ring = asyncio.Event()
        self._servers = itertools.cycle(random.sample(settings.servers, len(settings.servers)))
        self._link: NacosLink | None = None
        self._linked = asyncio.Event()
        self._over = asyncio.Event()
        self._confirmed: dict[Target, Snapshot] = {}
        self._stale: dict[Target, float] = {}
        self._pushes: dict[Target, tuple[int, int]] = {}
        """Of the newest push of a service, its number, and when the server wrote it."""
        self._numbers = itertools.count()
        self._pending: dict[Target, None] = {}
        self._queues: list[asyncio.Queue[Target]] = [asyncio.Queue() for _ in range(AT_ONCE)]
        self._unreadable = 0

    def run(self) -> None:
        """Follow until the watches are closed."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._follow_all())

    def wake(self) -> None:
        """Have it look for new watches, and for its end."""
        try:
            self._loop.call_soon_threadsafe(self._woken)
        except RuntimeError:  # the loop is closed: it has ended
            return

    def ask(self, target: Target, seconds: float) -> Snapshot:
        """Return what a server says now. Raises :class:`ProviderFailureError`."""
        asking = self._asked(target, seconds)
        try:
            future = asyncio.run_coroutine_threadsafe(asking, self._loop)
        except RuntimeError:
            asking.close()
            raise ProviderFailureError(Cause.CLOSED) from None
        try:
            return future.result(seconds + BEAT_SECONDS)
        except NacosError as error:
            raise ProviderFailureError(error.cause) from None
        except concurrent.futures.CancelledError:  # by the end of the loop
            raise ProviderFailureError(Cause.CLOSED) from None
        except TimeoutError:
            future.cancel()
            raise ProviderFailureError(Cause.CLOSED if self._watches.closed else Cause.SILENT) from None

    async def _asked(self, target: Target, seconds: float) -> Snapshot:
        try:
            async with asyncio.timeout(seconds):
                await self._linked.wait()
                if self._link is None:  # it was, a moment ago
                    raise NacosError(self.boundary.cause or Cause.LOST)
                info = await self._link.query(service_name(target))
        except TimeoutError:
            raise NacosError(self.boundary.cause or Cause.SILENT) from None
        return snapshot_of_service(info, self._settings.clusters)

    # --- links ----------------------------------------------------------------------------------------------------

    async def _follow_all(self) -> None:
        self._loop.set_exception_handler(self._loop_fault)
        login = NacosLogin(self._settings)
        while not self._watches.closed:
            try:
                seconds = await self._round(login)
            except Exception as error:  # noqa: BLE001  the thread must not end: nobody would be told of anything
                self.boundary.fault(type(error).__name__)
                seconds = self._lost(Cause.FAULT)
            await self._rest(seconds)

    async def _round(self, login: NacosLogin) -> float:
        """Have one link for as long as it lasts, and return the seconds until the next one is to begin."""
        link = NacosLink(self._settings, login, self._pushed)
        try:
            await login.headers()
            await link.open(*next(self._servers))
            self._link = link
            self._linked.set()
            self.boundary.well()
            cause = await self._follow(link)
        except NacosError as error:
            cause = error.cause
        finally:
            if link.fault is not None:
                self.boundary.fault(link.fault)
            if self._link is not None:
                self._distrust(time.monotonic())
            self._link = None
            self._linked.clear()
            await link.close()
        return self._lost(cause)

    async def _follow(self, link: NacosLink) -> Cause:
        """Subscribe and hear until the link is lost."""
        self._queues = [asyncio.Queue() for _ in range(AT_ONCE)]
        self._pending.clear()
        work: list[Coroutine[Any, Any, None]] = [self._beat(link), self._hear_new(), self._ask_anew()]
        work += [self._subscribe_some(link, queue) for queue in self._queues]
        tasks = [asyncio.create_task(each) for each in work]
        for task in tasks:
            task.add_done_callback(lambda done: self._ended(done, link))
        for target in self._watches.targets():
            self._want(target)
        if self._watches.closed:  # while the link was being opened
            link.lose(Cause.CLOSED)
        try:
            return await link.lost
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None], link: NacosLink) -> None:
        """Give the link up where a part of the work has ended."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, NacosError):
            link.lose(error.cause)
        elif error is not None:
            self.boundary.fault(type(error).__name__)
            link.lose(Cause.FAULT)

    # --- the parts of the work ------------------------------------------------------------------------------------

    async def _beat(self, link: NacosLink) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            await link.check()

    async def _hear_new(self) -> None:
        while True:
            for watch in self._watches.take_new():
                known = self._confirmed.get(watch.target)
                if known is None:
                    self._want(watch.target)
                else:
                    watch.say(known)
            await self._ring.wait()
            self._ring.clear()

    async def _ask_anew(self) -> None:
        while True:
            targets = list(self._confirmed)
            for target in targets:
                await asyncio.sleep(max(ROUND_PAUSE, ROUND_SECONDS / len(targets)))
                self._want(target)
            if not targets:
                await asyncio.sleep(BEAT_SECONDS)

    async def _subscribe_some(self, link: NacosLink, queue: asyncio.Queue[Target]) -> None:
        while True:
            target = await queue.get()
            self._pending.pop(target, None)
            try:
                if self._watches.of(target):
                    await self._subscribe(link, target)
                else:
                    self._forget(target)
                    await link.subscribe(service_name(target), ending=True)
            except NacosError as error:
                if error.whole:
                    raise
                self._fail(target, error.cause)

    async def _subscribe(self, link: NacosLink, target: Target) -> None:
        before = self._pushes.get(target)
        info = await link.subscribe(service_name(target))
        pushed = self._pushes.get(target)
        if pushed is not None and pushed != before and pushed[1] >= time_of_service(info):
            return
        self._hear(target, info)

    def _want(self, target: Target) -> None:
        """Have a service subscribed to, or no more, once."""
        if target not in self._pending:
            self._pending[target] = None
            self._queues[hash(target) % AT_ONCE].put_nowait(target)

    # --- what is heard --------------------------------------------------------------------------------------------

    def _pushed(self, info: dict[str, Any]) -> None:
        target = target_of_service(info, self._settings.group)
        if target is not None:
            self._hear(target, info)
            self._pushes[target] = (next(self._numbers), time_of_service(info))

    def _hear(self, target: Target, info: dict[str, Any]) -> None:
        watches = self._watches.of(target)
        if not watches:
            self._forget(target)
            self._want(target)
            return
        snapshot = snapshot_of_service(info, self._settings.clusters)
        self._unreadable += snapshot.unreadable - self._confirmed.get(target, _NOTHING).unreadable
        self._confirmed[target] = snapshot
        self._stale.pop(target, None)
        for watch in watches:
            watch.say(snapshot)
        self._tell_unreadable()

    def _fail(self, target: Target, cause: Cause) -> None:
        self._forget(target)
        for watch in self._watches.of(target):
            watch.say(Failed(cause))

    def _forget(self, target: Target) -> None:
        self._unreadable -= self._confirmed.pop(target, _NOTHING).unreadable
        self._stale.pop(target, None)
        self._pushes.pop(target, None)

    # --- trust ----------------------------------------------------------------------------------------------------

    def _distrust(self, now: float) -> None:
        """Begin the end of what the link has said. One that was asked and has said nothing gives no trust."""
        self._pushes.clear()
        if not self._confirmed and self._watches.targets():
            return
        until = self.boundary.ended(now)
        self._stale.update(dict.fromkeys(self._confirmed, until))
        self._confirmed.clear()
        self._unreadable = 0
        self._loop.call_later(until - now + ROUND_PAUSE, lambda: self._expire(time.monotonic()))

    def _expire(self, now: float) -> None:
        """Fail what is stale and whose time is over; without a link, all of it."""
        cause = self.boundary.cause or Cause.UNREACHABLE
        if self._link is None:
            self._lost(cause)
        for target in [target for target, until in self._stale.items() if until <= now]:
            self._fail(target, cause)
        self._tell_unreadable()

    def _lost(self, cause: Cause) -> float:
        """Write down that no server is there, fail all where nothing is trusted, and return how long to rest."""
        if self._watches.closed:
            return 0.0
        if self.boundary.lost(cause, time.monotonic()):
            return AGAIN_SECONDS
        for target in self._watches.targets():
            self._fail(target, cause)
        self.boundary.forget_unreadable()
        return pause()

    def _tell_unreadable(self) -> None:
        """Tell of instances that nobody can read, and of their end once all that was known is heard anew."""
        if self._unreadable or not self._stale:
            self.boundary.unreadable(self._unreadable)

    # --- waiting --------------------------------------------------------------------------------------------------

    def _woken(self) -> None:
        self._ring.set()
        if self._watches.closed:
            self._over.set()
            if self._link is not None:
                self._link.lose(Cause.CLOSED)

    async def _rest(self, seconds: float) -> None:
        """Wait, unless it is the end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()

    def _loop_fault(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BlockingIOError):  # several loops of gRPC share one bell, and all but one hear nothing
            return
        self.boundary.fault("in its loop" if error is None else type(error).__name__)
