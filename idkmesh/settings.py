"""Every setting of every command that serves, once (CT-9.11): of this table are made its flag, variable and page.

Laws of this module:

1. A flag wins over its variable, the variable over the default. :mod:`idkmesh.settings_in_force` alone chooses.
2. A name means one thing. Where commands differ in a default or a flag, a setting has a row for each of them.
3. A name gives flag and variable: ``probe_listen`` is ``--probe-listen`` and ``IDKMESH_PROBE_LISTEN``. What has another
   one, or none, says so in its row, and why.
4. Nothing here opens, looks up or imports what a command needs: ``--help`` reads this table.

The rows of numbers come from :data:`~idkmesh.service_runtime.SETTINGS` and
:data:`~idkmesh.events.retention.RETENTION_SETTINGS`, which the constructors are driven by.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from idkmesh.events.retention import RETENTION_SETTINGS
from idkmesh.service_runtime import ACCESS_LOG_VARIABLE, SETTINGS, Setting

TOWER: Final = "control-tower"
SERVE: Final = "serve"
SUPERVISE: Final = "supervise"
ROUTER: Final = "router"
ADAPTER: Final = "readiness-adapter"

COMMANDS: Final = (TOWER, SERVE, SUPERVISE, ROUTER, ADAPTER)
"""The commands that serve until they are told to end."""

PREFIX: Final = "IDKMESH_"

MAX_PORT: Final = 65_535


class Kind(enum.Enum):
    """What a value is. Its text says what a person may give."""

    NUMBER = "a number within its range"
    PORT = f"a whole number from 0 to {MAX_PORT}; 0 takes a free port"
    HOST = "an address or a host's name"
    LISTEN = "ADDR:PORT, as in 127.0.0.1:9000, [::1]:9000 or 0.0.0.0:9000"
    LOOPBACK = "a loopback IPv4 address and a port, as in 127.0.0.1:18181"
    FILE = "the name of a file"
    SECRET_FILE = "the name of a file that holds a secret"  # noqa: S105  what it is, no secret
    IDENTIFIER = "1 to 128 of A-Z a-z 0-9 . _ : ~ - that begin with a letter or digit"
    USER = "a user's number"
    SWITCH = "1 is on, anything else off"
    SECRET = "a secret, which is never shown"  # noqa: S105  as above


class Group(enum.Enum):
    """The parts of ``--help`` and of the page. The text stands under the title in ``--help``."""

    MAIN = ""
    HEALTH = "what its probes tell of, and where they are answered besides"
    WORKLOADS = "IDKMESH_PROBE_UID is the user that commands run as: 65534, nobody"
    ROUTER = "invocations that are passed on"
    EVENTS = "where events are kept, and how many"
    LIMITS = "each is a variable too, IDKMESH_REQUEST_TIMEOUT for example; flags win"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSetting:
    """One row: a setting as some commands have it.

    ``default`` is None where nothing stands in its place, or where ``default_text`` says what is made at the start.
    ``own_flag`` and ``own_variable`` are those that the name does not give; ``no_flag`` and ``no_variable`` say why
    there is none. ``refused_empty`` is what is told of an empty flag. An empty variable is one that is not given, but
    for numbers and ports, which have no empty form. ``judged_with`` names the setting without which a value is used by
    nobody, and not judged. ``number`` is the row of a number.
    """

    name: str
    kind: Kind
    commands: tuple[str, ...]
    meaning: str
    group: Group = Group.MAIN
    metavar: str = "FILE"
    default: str | float | None = None
    default_text: str = "none"
    needed: bool = False
    own_flag: str = ""
    own_variable: str = ""
    no_flag: str = ""
    no_variable: str = ""
    refused_empty: str = ""
    judged_with: str | None = None
    number: Setting | None = None

    @property
    def flag(self) -> str | None:
        """The command-line flag, ``--probe-listen``, None where there is none."""
        return None if self.no_flag else self.own_flag or "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str | None:
        """The environment variable, ``IDKMESH_PROBE_LISTEN``, None where there is none."""
        return None if self.no_variable else self.own_variable or self.named_variable

    @property
    def named_variable(self) -> str:
        """The variable that the name gives, whether there is one or not."""
        return PREFIX + self.name.upper()

    @property
    def unit(self) -> str | None:
        """The unit of a number, None where it counts or is none."""
        return None if self.number is None or self.number.unit == "count" else self.number.unit

    @property
    def takes(self) -> str:
        """What a person may give, in words."""
        return self.kind.value if self.number is None else self.number.range_text

    @property
    def default_words(self) -> str:
        """The default, in words."""
        if self.default is None:
            return self.default_text
        return f"{self.default:.15g}" if isinstance(self.default, float) else str(self.default)


_EMPTY: Final = "an empty value is refused"
_WRITTEN: Final = (
    "it names what is replaced and removed: a variable that a second service inherits would let it take the first one's"
)


def _number(setting: Setting, group: Group, commands: tuple[str, ...]) -> CommandSetting:
    return CommandSetting(
        name=setting.name,
        kind=Kind.NUMBER,
        commands=commands,
        meaning=setting.meaning,
        group=group,
        metavar={"seconds": "SECONDS", "bytes": "BYTES"}.get(setting.unit, "N"),
        default=setting.default,
        number=setting,
    )


_WHERE: Final = (
    CommandSetting(
        name="host",
        kind=Kind.HOST,
        commands=(TOWER,),
        meaning="a loopback address, or localhost, which is 127.0.0.1",
        metavar="HOST",
        default="127.0.0.1",
    ),
    CommandSetting(
        name="host",
        kind=Kind.HOST,
        commands=(SERVE,),
        meaning="the address to bind",
        metavar="HOST",
        default="127.0.0.1",
    ),
    CommandSetting(
        name="port",
        kind=Kind.PORT,
        commands=(TOWER,),
        meaning="0 takes a free one",
        metavar="PORT",
        default=8765,
    ),
    CommandSetting(
        name="port",
        kind=Kind.PORT,
        commands=(SERVE,),
        meaning="0 takes a free one",
        metavar="PORT",
        default=8000,
    ),
    CommandSetting(
        name="listen",
        kind=Kind.LOOPBACK,
        commands=(ADAPTER,),
        meaning="a loopback IPv4 address and a port, 0 for a free one",
        metavar="ADDR:PORT",
        default="127.0.0.1:18181",
    ),
    CommandSetting(
        name="tls_cert",
        kind=Kind.FILE,
        commands=(SERVE,),
        meaning="serve HTTPS with this certificate chain (PEM)",
    ),
    CommandSetting(
        name="tls_key",
        kind=Kind.SECRET_FILE,
        commands=(SERVE,),
        meaning="its private key, if that is not in the same file",
    ),
)

_WHO: Final = (
    CommandSetting(
        name="port_file",
        kind=Kind.FILE,
        commands=(TOWER,),
        meaning="write the port to FILE, and remove it at the end",
        no_variable=_WRITTEN,
    ),
    CommandSetting(
        name="token_file",
        kind=Kind.SECRET_FILE,
        commands=(TOWER,),
        meaning="read the session token from FILE, which wins over IDKMESH_CONTROL_TOWER_TOKEN",
        own_variable="IDKMESH_CONTROL_TOWER_TOKEN_FILE",
    ),
    CommandSetting(
        name="token",
        kind=Kind.SECRET,
        commands=(TOWER,),
        meaning="the session token: 32 to 4096 of A-Z a-z 0-9 - . _ ~",
        metavar="TOKEN",
        default_text="random for each process",
        own_variable="IDKMESH_CONTROL_TOWER_TOKEN",
        no_flag="every user of the machine can read a command line",
    ),
    CommandSetting(
        name="client_file",
        kind=Kind.FILE,
        commands=(TOWER,),
        meaning="write address and token to FILE, for idkmesh node get, and remove it at the end",
        no_variable=_WRITTEN,
    ),
    CommandSetting(
        name="client_file",
        kind=Kind.SECRET_FILE,
        commands=(ADAPTER,),
        meaning="the node's address and token, which control-tower writes; ARGV finds its path in IDKMESH_CLIENT_FILE, "
        "and may do without one",
    ),
    CommandSetting(
        name="node_id",
        kind=Kind.IDENTIFIER,
        commands=(ADAPTER,),
        meaning="the node that is meant; idkmesh node get says",
        metavar="ID",
        needed=True,
    ),
    CommandSetting(
        name="http_access_log",
        kind=Kind.SWITCH,
        commands=COMMANDS,
        meaning="1: a line of JSON on standard error for each answer, of a probe where its status changes",
        metavar="1",
        default="0",
        own_variable=ACCESS_LOG_VARIABLE,
        no_flag="BoundedHTTPServer reads it by itself, in a program without a command line too (HS-13.3)",
    ),
)

_HEALTH: Final = (
    CommandSetting(
        name="matrix",
        kind=Kind.FILE,
        commands=(TOWER,),
        meaning="what it depends on, and how that is probed; SIGHUP reads FILE again; without one it watches its own "
        "store and the disk under it",
        group=Group.HEALTH,
        refused_empty=_EMPTY,
    ),
    CommandSetting(
        name="matrix",
        kind=Kind.FILE,
        commands=(SERVE,),
        meaning="what it depends on, and how that is probed; SIGHUP reads FILE again; it needs --probe-listen",
        group=Group.HEALTH,
        refused_empty=_EMPTY,
    ),
    CommandSetting(
        name="probe_listen",
        kind=Kind.LISTEN,
        commands=(TOWER, SERVE, SUPERVISE, ROUTER),
        meaning="answer /livez, /readyz, /startupz and /healthz here too, and nothing else, to anybody",
        group=Group.HEALTH,
        metavar="ADDR:PORT",
        refused_empty=_EMPTY,
    ),
)

_MODULES: Final = (
    CommandSetting(
        name="modules",
        kind=Kind.FILE,
        commands=(TOWER,),
        meaning="supervise these modules besides, as idkmesh supervise does; SIGHUP reads FILE again",
        group=Group.WORKLOADS,
        refused_empty=_EMPTY,
    ),
    CommandSetting(
        name="modules",
        kind=Kind.FILE,
        commands=(SUPERVISE,),
        meaning="the declaration of modules; SIGHUP reads FILE again",
        group=Group.WORKLOADS,
        refused_empty=_EMPTY,
        needed=True,
    ),
    CommandSetting(
        name="probe_uid",
        kind=Kind.USER,
        commands=(TOWER, SUPERVISE),
        meaning="the user that readiness commands run as",
        group=Group.WORKLOADS,
        metavar="UID",
        default=65_534,
        no_flag="who may do what on a machine is said by its administrator, in the unit, and not by each start",
        judged_with="modules",
    ),
)

_ROUTER: Final = (
    CommandSetting(
        name="router",
        kind=Kind.FILE,
        commands=(TOWER,),
        meaning="route besides, as idkmesh router --config FILE does; SIGHUP reads its credentials again",
        group=Group.ROUTER,
        refused_empty=_EMPTY,
    ),
    CommandSetting(
        name="router",
        kind=Kind.FILE,
        commands=(ROUTER,),
        meaning="where it listens, for whom, on which provider; SIGHUP reads its credentials again",
        own_flag="--config",
        refused_empty=_EMPTY,
        needed=True,
    ),
)

_EVENTS: Final = (
    CommandSetting(
        name="store",
        kind=Kind.FILE,
        commands=(TOWER, SUPERVISE, ROUTER),
        meaning="the event store's file",
        group=Group.EVENTS,
        metavar="PATH",
        default_text="events.sqlite3 in the user's state directory, ~/.local/state/idkmesh on Linux",
        refused_empty="an empty name is refused, it must be that of a file",
    ),
    *(_number(setting, Group.EVENTS, (TOWER, SUPERVISE, ROUTER)) for setting in RETENTION_SETTINGS),
)

TABLE: Final[tuple[CommandSetting, ...]] = (
    *(*_WHERE, *_WHO, *_HEALTH, *_MODULES, *_ROUTER, *_EVENTS),
    *(_number(setting, Group.LIMITS, (TOWER, SERVE, ROUTER)) for setting in SETTINGS),
)


def rows_of(command: str) -> tuple[CommandSetting, ...]:
    """Return what a command has, in the order of the table."""
    return tuple(row for row in TABLE if command in row.commands)


def row_of(command: str, name: str) -> CommandSetting:
    """Return one setting of a command. Raises ``KeyError`` for a name that it does not have."""
    for row in rows_of(command):
        if row.name == name:
            return row
    raise KeyError(f"{command} has no setting {name}")


VARIABLES: Final = frozenset(row.variable for row in TABLE if row.variable is not None)
"""Every variable that some command takes."""
