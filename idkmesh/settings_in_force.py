"""Which value of each setting is in force for a command, and where it came from (CT-9.11). Pure.

The name of a file is the value of its setting; what stands in the file is its command's to judge.
"""

from __future__ import annotations

import contextlib
import enum
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from idkmesh.events.retention import RETENTION_SETTINGS, Retention
from idkmesh.service_runtime import SETTINGS, ServiceLimits, SettingError
from idkmesh.settings import MAX_PORT, PREFIX, SERVE, TABLE, VARIABLES, Kind, row_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from idkmesh.service_runtime import Setting
    from idkmesh.settings import CommandSetting

_ADDRESS: Final = re.compile(r"(\[[0-9A-Za-z:.%]{2,}\]|[^:\[\]\s]+):([0-9]{1,5})")
_PORT: Final = re.compile(r"[0-9]{1,5}")

# What a cluster tells every pod of its Services (Kubernetes' "Service links", in the form that Docker's links had). Of
# a Service named idkmesh these names begin as ours do.
_LINK_NAME: Final = re.compile(
    rf"{PREFIX}(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_LINK_VALUE: Final = re.compile(r"(?:tcp|udp|sctp)://\S+")
"""What such a name has that ends in ``_PORT``."""

_REHEARSED: Final = f"{PREFIX}DEP_"
"""How the variables begin by which a rehearsal tells a service where its dependencies are (HL-8.1)."""


class Source(enum.Enum):
    """Where a value came from."""

    FLAG = "flag"
    VARIABLE = "variable"
    FILE = "file"
    DEFAULT = "default"


class Origin(NamedTuple):
    """Where a value came from, and the name of the flag, variable or file; None for a default."""

    source: Source
    name: str | None = None


class Value(NamedTuple):
    """A setting with its value, None where nothing stands in its place."""

    row: CommandSetting
    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class InForce:
    """All settings of one command. ``values`` are by name, in the order of the table; a token may be among them."""

    command: str
    values: Mapping[str, Value] = field(repr=False)
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    retention: Retention = field(default_factory=Retention)

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  each kind has a type of its own
        """Return the value of a setting, None where nothing stands in its place."""
        return self.values[name].value

    def missing(self) -> str | None:
        """Say in a line what the command cannot do without and has not got, None where it has all."""
        for row, value, _ in self.values.values():
            if row.needed and value is None:
                return f"{self.command} needs {row.flag} {row.metavar}, or {row.variable}"
        return None

    def clash(self) -> str | None:
        """Say in a line what is given without another setting that it needs beside it (HL-3.4), else None."""
        if self.command != SERVE:
            return None
        if self["matrix"] is not None and self["probe_listen"] is None:
            given = self.values["matrix"].origin.name
            return f"serve: {given} needs --probe-listen ADDR:PORT: no path of the program is answered for it"
        if self["tls_key"] is not None and self["tls_cert"] is None:
            return f"serve: {self.values['tls_key'].origin.name} needs --tls-cert"
        return None


def in_force(command: str, flags: Mapping[str, Any], environ: Mapping[str, str]) -> InForce:
    """Return what holds for ``command``. ``flags`` are by the names of settings, None where one was not given.

    Raises :class:`~idkmesh.service_runtime.SettingError`, one line that names the flag or variable.
    """
    known = each_in_force(command, flags, environ)
    told = known.clash()
    if told is not None:
        raise SettingError(told)
    return known


def each_in_force(command: str, flags: Mapping[str, Any], environ: Mapping[str, str]) -> InForce:
    """Return the same, each value judged by itself, and not beside the others (:meth:`InForce.clash`)."""
    rows = rows_of(command)
    names = {row.name for row in rows}
    given = {name: value for name, value in flags.items() if name in names and value is not None}
    numbers: dict[str, float] = {}
    limits, retention = ServiceLimits(), Retention()
    if _has(names, SETTINGS):
        limits = ServiceLimits.from_environ(environ, _of(given, SETTINGS))
        numbers |= {setting.name: getattr(limits, setting.name) for setting in SETTINGS}
    if _has(names, RETENTION_SETTINGS):
        retention = Retention.from_environ(environ, _of(given, RETENTION_SETTINGS))
        numbers |= {setting.name: getattr(retention, setting.name) for setting in RETENTION_SETTINGS}
    values: dict[str, Value] = {}
    for row in rows:
        origin, value = _chosen(row, given, environ)
        if row.number is not None:
            value = numbers[row.name]
        elif isinstance(value, str) and (row.judged_with is None or values[row.judged_with].value is not None):
            value = _judged(row, value, origin.name or row.name)
        values[row.name] = Value(row, value, origin)
    return InForce(command, _with_token(values), limits, retention)


def value_of(command: str, name: str, environ: Mapping[str, str], flag: object = None) -> Any:  # noqa: ANN401  of any kind
    """Return the value of one setting of a command, for whoever has but this one; ``flag`` is None where not given.

    Raises :class:`~idkmesh.service_runtime.SettingError`.
    """
    row = row_of(command, name)
    origin, value = _chosen(row, {} if flag is None else {name: flag}, environ)
    return _judged(row, value, origin.name or name) if isinstance(value, str) else value


def _has(names: set[str], settings: Iterable[Setting]) -> bool:
    return all(setting.name in names for setting in settings)


def _of(given: Mapping[str, Any], settings: Iterable[Setting]) -> dict[str, Any]:
    return {setting.name: given[setting.name] for setting in settings if setting.name in given}


def _chosen(row: CommandSetting, given: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[Origin, Any]:
    """Return where a value comes from, and the value as it stands there: the flag, else the variable, else neither."""
    if row.name in given:
        if given[row.name] == "" and row.refused_empty:
            raise SettingError(f"{row.flag}: {row.refused_empty}")
        return Origin(Source.FLAG, row.flag), given[row.name]
    text = None if row.variable is None else environ.get(row.variable)
    empty_is_given = row.kind in {Kind.NUMBER, Kind.PORT}
    if text is None or not (text or empty_is_given) or (row.kind is Kind.PORT and _LINK_VALUE.fullmatch(text)):
        return Origin(Source.DEFAULT), row.default
    if row.kind is Kind.SECRET_FILE and "\n" in text:
        raise SettingError(f"{row.variable}: a text of several lines is refused, it must be {row.kind.value}")
    return Origin(Source.VARIABLE, row.variable), text


def _with_token(values: dict[str, Value]) -> dict[str, Value]:
    """Let a token come from its file where one is named: that wins over the variable (CT-2.5)."""
    file = values.get("token_file")
    if file is not None and file.value is not None:
        values["token"] = Value(values["token"].row, None, Origin(Source.FILE, file.value))
    return values


def _judged(row: CommandSetting, text: str, source: str) -> Any:  # noqa: ANN401  each kind has a type of its own
    """Return what a text means. Raises :class:`SettingError` that names ``source``."""
    judge = _JUDGES.get(row.kind)
    return text if judge is None else judge(text, source)


def port_of(text: str) -> int:
    """Return a port. Raises ``ValueError``, in words that follow the name of where it stands."""
    if not _PORT.fullmatch(text) or int(text) > MAX_PORT:
        raise ValueError(f"{text!r} is refused, a port is a whole number from 0 to {MAX_PORT}")
    return int(text)


def _port(text: str, source: str) -> int:
    try:
        return port_of(text)
    except ValueError as error:
        raise SettingError(f"{source}: {error}") from None


def listen(text: str, source: str) -> tuple[str, int]:
    """Return the host and port of ``ADDR:PORT``. Raises :class:`SettingError` that names ``source``."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[2]) > MAX_PORT:
        raise SettingError(f"{source}: {text!r} is refused, it must be {Kind.LISTEN.value}")
    return found[1], int(found[2])


def loopback(text: str, source: str) -> tuple[str, int]:
    """Return a loopback IPv4 address and a port (RA-8.4). Raises :class:`SettingError` that names ``source``."""
    import ipaddress

    host, _, number = text.rpartition(":")
    with contextlib.suppress(ValueError):
        if ipaddress.IPv4Address(host).is_loopback:
            return host, port_of(number)
    raise SettingError(f"{source}: {text!r} is refused, it must be {Kind.LOOPBACK.value}")


def _identifier(text: str, source: str) -> str:
    from idkmesh.adapter.observation import IDENTIFIER

    if not re.fullmatch(IDENTIFIER, text):
        raise SettingError(f"{source}: {text!r} is refused, it must be {Kind.IDENTIFIER.value}")
    return text


def _user(text: str, _source: str) -> int:
    from idkmesh.workloads.probe_user import VARIABLE, probe_uid

    try:
        return probe_uid({VARIABLE: text})
    except ValueError as error:
        raise SettingError(str(error)) from None


def _switch(text: str, _source: str) -> bool:
    return text == "1"


_JUDGES: Final = {
    Kind.PORT: _port,
    Kind.LISTEN: listen,
    Kind.LOOPBACK: loopback,
    Kind.IDENTIFIER: _identifier,
    Kind.USER: _user,
    Kind.SWITCH: _switch,
}


def slips(environ: Mapping[str, str], command: str | None = None) -> list[str]:
    """Return a line for each variable of our name that changes nothing (HS-2.1), those that only a flag says included.

    ``command`` is one that serves, None for another.
    """
    from idkmesh.workloads.model import PROCESS_VARIABLES

    known = set(VARIABLES)
    if all(name in environ for name in PROCESS_VARIABLES):  # one alone is a mistake
        known |= set(PROCESS_VARIABLES)
    flags = {row.named_variable: row for row in TABLE if row.variable is None and command in row.commands}
    lines = []
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name.startswith(_REHEARSED) or _LINK_NAME.fullmatch(name):
            continue
        if name.endswith("_PORT") and _LINK_VALUE.fullmatch(environ[name]):
            if name in known:
                lines.append(f"{name} is what a cluster says of a Service, and changes nothing; --port does")
        elif name in flags:
            lines.append(f"{name} changes nothing for {command}, {flags[name].flag} does")
        elif name not in known:
            lines.append(f"{name} is no setting and changes nothing")
    return [f"warning: {line}" for line in lines]
