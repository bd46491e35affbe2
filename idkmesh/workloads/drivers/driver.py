"""What a driver does (AR-8.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from idkmesh.workloads.model import DesiredModule, Instance, Readiness, Run


NOT_OURS: Final = "the lease is no longer ours"
"""Why nothing is ended after a no of ``may_act``."""


class DriverError(Exception):
    """A platform did not do what was asked. As text it is one line: what happened, where, what to do; no secret."""


class Driver(Protocol):
    """Instances of one platform. Any thread may call any method; each call has a total deadline of its own."""

    def instances(self, modules: Sequence[DesiredModule]) -> list[Instance]:
        """Return the instances of these modules, in their order; declared ones that are not there are ``GONE``.

        Raises :class:`DriverError` where the platform does not answer.
        """

    def run(self, instance: Instance, readiness: Readiness, uid: int) -> Run:
        """Run a readiness command inside an instance (AR-3.2 to AR-3.4), and return when it is over. Never raises."""

    def restart(self, instance: Instance, may_act: Callable[[], bool]) -> None:
        """Restart an instance (AR-5.6). Raises :class:`DriverError` where that did not come about, or is not known.

        ``may_act`` looks at the lease (AR-5.4): it is asked right before each call that ends the instance, and nothing
        is ended after a no.
        """

    def close(self) -> None:
        """Give back what is held. A second call changes nothing."""
