"""Looks at a site ten times a second, each observer in a thread of its own (FT-4.2)."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from playwright.sync_api import sync_playwright

from idkmesh.demo.watching import side_by_side
from idkmesh.topology.projection import PATH
from scripts.lib.verdicts import figures
from scripts.lib.verdicts.cells import NO_ANSWER, WELL, Observer, Sample
from scripts.lib.verdicts.site import TARGET, TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scripts.lib.verdicts.site import Site

LOOK_SECONDS: Final = 0.1
LIVENESS: Final = figures.ORCHESTRATOR.liveness
INVOCATION: Final = json.dumps({
    "agentId": TARGET.agent_id, "agentCardVersion": TARGET.agent_card_version, "releaseId": TARGET.release_id,
    "input": 1,
}).encode()  # fmt: skip


class Eyes:
    """All samples so far."""

    def __init__(self, site: Site, chromium: str) -> None:
        self._site, self._chromium = site, chromium
        self._ended = threading.Event()
        self.samples: list[Sample] = []
        self.faults: list[str] = []
        self._failures = 0
        self._restarted = False
        self._restarts: dict[str, int] = {}
        """How often each replica has been restarted up to when it was healthy last."""

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Look for a while."""
        looks: list[Callable[[], None]] = [
            lambda: self._every(LOOK_SECONDS, self._probe(Observer.LIVE, "/livez")),
            lambda: self._every(LOOK_SECONDS, self._probe(Observer.READY, "/readyz")),
            lambda: self._every(LOOK_SECONDS, self._probe(Observer.STARTUP, "/startupz")),
            lambda: self._every(LOOK_SECONDS, self._adapter),
            lambda: self._every(LOOK_SECONDS, self._topology),
            lambda: self._every(LIVENESS.period_ms / 1000, self._restart),
            lambda: self._every(LIVENESS.period_ms / 1000, self._modules),
            lambda: self._every(figures.CALL_SECONDS, self._invoke),
            self._page,
        ]
        with side_by_side([functools.partial(self._run, look) for look in looks], self._ended, 15):
            yield

    def newest(self) -> dict[Observer, Sample]:
        """Return the last answer to each."""
        return {each.observer: each for each in tuple(self.samples)}

    def all_say(self, words: Mapping[Observer, tuple[str, ...]], seconds: float) -> bool:
        """Say whether each observer has said these words, and no other, for so long."""
        since = time.monotonic() - seconds
        late = [each for each in tuple(self.samples) if each.at > since]
        return {each.observer for each in late} == set(Observer) and all(
            each.word in words[each.observer] for each in late
        )

    def wait_until_well(self, seconds: float, for_seconds: float) -> None:
        """Wait until all has been well for a while. Raises ``TimeoutError``, which says who is not."""
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            late = [each for each in tuple(self.samples) if each.at > now - for_seconds]
            said = {each.observer for each in late}
            unwell = {f"{each.observer}: {each.word}" for each in late if each.word != WELL[each.observer]}
            missing = set(Observer) - said - {Observer.RESTART}
            if not unwell and not missing:
                return
            if now > until:
                raise TimeoutError(f"not well: {', '.join(sorted(unwell | missing))}; {'; '.join(self.faults)}")
            time.sleep(0.1)

    def _run(self, look: Callable[[], None]) -> None:
        try:
            look()
        except Exception as error:  # noqa: BLE001  told by whoever waits: a column would be empty otherwise
            self.faults.append(f"{type(error).__name__}: {error}"[:300])

    def _every(self, seconds: float, look: Callable[[], None]) -> None:
        due = time.monotonic()
        while not self._ended.is_set():
            look()
            due = max(due + seconds, time.monotonic())
            self._ended.wait(max(0.0, due - time.monotonic()))

    def _say(self, observer: Observer, word: str) -> None:
        self.samples.append(Sample(time.monotonic(), observer, word))

    def _probe(self, observer: Observer, path: str) -> Callable[[], None]:
        def look() -> None:
            try:
                _, content = self._site.ask("probes", path)
                text = content.decode().strip()
                self._say(observer, json.loads(text).get("status", "draining") if text.startswith("{") else text)
            except OSError:
                self._say(observer, NO_ANSWER)

        return look

    def _adapter(self) -> None:
        paths = (("/startup", Observer.ADAPTER_STARTED), ("/live", Observer.ADAPTER_LIVE))
        for path, observer in (*paths, ("/ready", Observer.ADAPTER_READY)):
            try:
                _, content = self._site.ask("adapter", path)
                self._say(observer, json.loads(content)["status"])
            except (OSError, LookupError, ValueError):
                self._say(observer, NO_ANSWER)

    def _topology(self) -> None:
        try:
            status, content = self._site.ask("router", PATH, token=TOKEN)
            rows: list[dict[str, Any]] = json.loads(content)["observations"] if status == http.client.OK else []
            self._say(Observer.TOPOLOGY, rows[0]["state"] if rows else f"nothing (status {status})")
        except (OSError, LookupError, ValueError):
            self._say(Observer.TOPOLOGY, NO_ANSWER)

    def _restart(self) -> None:
        """Ask as an orchestrator does, by the liveness of the matrix."""
        try:
            well = self._site.ask("probes", "/livez", seconds=LIVENESS.timeout_ms / 1000)[0] == http.client.OK
        except OSError:
            well = False
        self._failures = 0 if well else self._failures + 1
        due = "due" if self._failures >= LIVENESS.failure_threshold else "none"
        self._say(Observer.RESTART, "of a module" if self._restarted else due)

    def _modules(self) -> None:
        """Say that a replica has been restarted from then on until it is healthy again."""
        with contextlib.suppress(OSError, LookupError, ValueError):
            items = json.loads(self._site.ask("page", "/api/v1/modules", token=TOKEN)[1]).get("items", [])
            replicas = {each["name"]: each for item in items for each in item["instances"]}
            for name, each in replicas.items():
                if each["health"] == "healthy":
                    self._restarts[name] = each["restarts"]
            self._restarted = any(each["restarts"] > self._restarts.get(name, 0) for name, each in replicas.items())

    def _invoke(self) -> None:
        with contextlib.suppress(OSError):
            self._site.ask("router", "/agent/v1/invocations", INVOCATION, token=TOKEN)

    def _page(self) -> None:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=self._chromium, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{self._site.ports['page']}/#token={TOKEN}")

            def look() -> None:
                said = str(page.evaluate("document.querySelector('#verdict')?.textContent ?? ''"))
                self._say(Observer.PAGE, said.partition(",")[0])  # "Ready, with 1 warning" is ready

            self._every(LOOK_SECONDS, look)
            browser.close()
