"""Classes that a module can name without declaring them (AR-2.6).

Each command was run as uid 65534 in ``/`` against the program of Debian 12 in good and in bad states. It is chosen by
what its exit status says there, since nothing else of it is read. A program that its instance does not have says
nothing (AR-3.3), so each entry names the package that brings it.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from idkmesh.workloads.model import Readiness

if TYPE_CHECKING:
    from collections.abc import Mapping

_PORT: Final = "{port}"

# No file of settings, no proxy: the answer is this instance's own. It ends by itself before it would be killed.
_CURL_ANY: Final = ("curl", "-q", "-s", "-o/dev/null", "--noproxy", "*", "--max-time", "4")
_CURL_BELOW_400: Final = ("curl", "-q", "-fs", "-o/dev/null", "--noproxy", "*", "--max-time", "4")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """A class of the catalog.

    ``package`` is Debian's that has the program, ``proves`` what exit status 0 says, ``proves_not`` what it leaves open
    and what it needs. Where ``command`` has a port, it is the module's, or ``port`` where the module has none.
    """

    command: tuple[str, ...]
    package: str
    proves: str
    proves_not: str
    port: int | None = None

    def readiness(self, port: int | None = None) -> Readiness:
        """Return the command for a module with this port."""
        number = str(self.port if port is None else port)
        return Readiness(tuple(argument.replace(_PORT, number) for argument in self.command))


CATALOG: Final[Mapping[str, CatalogEntry]] = MappingProxyType(
    {
        "postgresql": CatalogEntry(
            command=("pg_isready", "-q", "-p", _PORT),
            port=5432,
            package="postgresql-client",
            proves="The server takes connections at its Unix socket. One that starts, recovers without hot standby, or "
            "hangs does not: exit status 1 or 2. No account is needed, and a password changes nothing.",
            proves_not="It is 0 while every connection is taken. It says nothing of a database or of writing.",
        ),
        "redis": CatalogEntry(
            command=("redis-cli", "-e", "-p", _PORT, "ping"),
            port=6379,
            package="redis-tools",
            proves="The server answers PING. Without -e the exit status is 0 also where the answer is LOADING, BUSY, "
            "MASTERDOWN or NOAUTH; with it, it is 1.",
            proves_not="It needs redis-cli 7.0: an older one lacks -e and always fails. A server with a password "
            "always fails: declare a program of the image that knows it. It says nothing of writing.",
        ),
        "mariadb": CatalogEntry(
            command=("mariadb-admin", "--connect-timeout=4", "ping"),
            package="mariadb-client",
            proves="The server answers a login at its Unix socket. It is 0 also where the login is refused, which is "
            "wanted: a server that refuses this user is there. All connections taken, hung or ended is 1.",
            proves_not="It says nothing of a database or of writing. The server may log each refused login: "
            "CREATE USER nobody@localhost IDENTIFIED VIA unix_socket ends that.",
        ),
        "nginx": CatalogEntry(
            command=(*_CURL_ANY, f"http://127.0.0.1:{_PORT}/"),
            port=80,
            package="curl",
            proves="A worker answers a request. Any status counts, 502 of a dead upstream too: a restart of nginx "
            "would not mend that. Hung workers are 28, nobody there is 7.",
            proves_not="It says nothing of what is served, nor of TLS.",
        ),
        "rabbitmq": CatalogEntry(
            command=(*_CURL_BELOW_400, "http://127.0.0.1:15692/metrics"),
            package="curl",
            proves="The node runs and answers with its figures; one whose application is stopped does not. "
            "rabbitmq-diagnostics would say more, but refuses every user but root and rabbitmq with exit status 1.",
            proves_not="It needs the plugin: rabbitmq-plugins enable rabbitmq_prometheus. Without it a healthy node "
            "fails. It is 0 under a memory alarm, which holds publishers up, and says nothing of queues.",
        ),
        "http": CatalogEntry(
            command=(*_CURL_BELOW_400, f"http://127.0.0.1:{_PORT}/"),
            port=80,
            package="curl",
            proves="The service answers GET / with a status below 400, over IPv4 without TLS. 400 and more is 22.",
            proves_not="A service without anything at / fails: declare a command that asks its own path.",
        ),
    }
)
"""The classes by name."""
