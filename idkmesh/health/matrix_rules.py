"""The table of what a probe matrix may say (HL-3.1, HL-4.1), from which the published schema is made.

Every range stands here, and nowhere else. Times are whole milliseconds.
"""

from __future__ import annotations

from typing import Final

from idkmesh.validation.findings import Rule
from idkmesh.validation.shapes import Choice, Figure, Flag, ListOf, MapOf, Never, OneOf, Record, Text

MAX_DEPENDENCIES: Final = 1000

_HOUR: Final = 3_600_000
_DAY: Final = 24 * _HOUR

PORT: Final = "(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"
HOST: Final = "[A-Za-z0-9._-]{1,253}"
V6: Final = "(?=[^:]*:[^:]*:)[0-9A-Fa-f:.]{2,45}"
"""Hexadecimal digits, colons and points with two colons at least."""
_WORD: Final = "[A-Za-z_][A-Za-z0-9_]*"
_TOKEN: Final = "[A-Za-z0-9!#$%&'*+.^_`|~-]+"  # noqa: S105  RFC 9110 5.6.2, no secret

SHELLS: Final = (
    *("sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "csh", "tcsh", "fish", "rbash", "yash", "busybox"),
    *("cmd", "powershell", "pwsh"),
)
"""Programs that read a command line, by basename."""

SECRET_FIELDS: Final = ("authorization", "proxy-authorization", "cookie", "x-api-key", "x-auth-token")
"""Header fields whose value is a credential."""


def _any_case(word: str) -> str:
    """Return a pattern for a word in capitals or not: JSON Schema knows no flags."""
    return "".join(f"[{letter.upper()}{letter}]" if letter.isalpha() else letter for letter in word)


_SHELL: Final = Never(
    pattern=r"(?:[\s\S]*[/\\])?(?:" + "|".join(map(_any_case, SHELLS)) + rf")(?:\.{_any_case('exe')})?",
    rule=Rule.SHELL,
    what="is a shell, which would run whatever a text says and outlive its deadline in what it starts",
    mend="name the program itself with its arguments, each an item; put a pipeline into a script of its own",
)
_URL_CREDENTIALS: Final = Never(
    pattern=r"[^/?#]*//[^/?#]*@[\s\S]*",
    rule=Rule.CREDENTIALS,
    what="has credentials in it, which would end up in logs and lists of processes",
    mend="take them out and name the variable that holds them: headers_from_env: {Authorization: NAME_OF_VARIABLE}",
)
_SECRET_FIELD: Final = Never(
    pattern="|".join(map(_any_case, SECRET_FIELDS)),
    rule=Rule.CREDENTIALS,
    what="carries a credential, which has no place in this file",
    mend="put it into a variable and name that in headers_from_env",
)


def _path(meaning: str) -> Text:
    return Text(meaning=meaning, wanted="a path without NUL", pattern=r"[^\x00]+", most=4096)


def _ms(meaning: str, least: int, most: int) -> Figure:
    return Figure(meaning=meaning, least=least, most=most, unit="ms")


def _field_name(never: Never | None) -> Text:
    meaning = "Name of a header field."
    return Text(meaning=meaning, wanted="the name of a header field", pattern=_TOKEN, most=128, never=never)


_ARGUMENT: Final = Text(meaning="An argument.", wanted="a text without NUL", pattern=r"[^\x00]*", least=0, most=32_768)
_PROGRAM: Final = Text(
    meaning="The program, by path or by name on PATH; no shell.",
    wanted="a program without NUL",
    pattern=r"[^\x00]+",
    most=4096,
    never=_SHELL,
)

PROBES: Final[dict[str, Record]] = {
    "tcp": Record(
        meaning="Connect to a host and port, and close.",
        members={
            "host": Text(
                meaning="Host name, IPv4 address, or IPv6 address without brackets.",
                wanted="a host name or an address, without port and brackets",
                pattern=f"(?:{HOST}|{V6}(?:%[A-Za-z0-9._-]{{1,32}})?)",
                most=253,
            ),
            "port": Figure(meaning="TCP port.", least=1, most=65_535),
        },
        required=("host", "port"),
    ),
    "http": Record(
        meaning="Ask a URL. No redirect is followed.",
        members={
            "url": Text(
                meaning="What to ask, without credentials and fragment; other characters than ASCII are escaped.",
                wanted="a URL such as https://db.example:8443/health, in ASCII and without fragment",
                pattern=rf"[Hh][Tt][Tt][Pp][Ss]?://(?:{HOST}|\[{V6}\])(?::{PORT})?(?:[/?][!$-~\x22]*)?",
                most=2048,
                never=_URL_CREDENTIALS,
            ),
            "method": Choice(meaning="GET unless said otherwise.", words=("GET", "HEAD")),
            "unix_socket": _path("A Unix socket to ask through; the URL's host is then only told to the other side."),
            "expect": ListOf(
                meaning="Statuses that are ok; 200 to 399 unless said otherwise.",
                item=Figure(meaning="A status.", least=200, most=599),
                least=1,
                most=64,
            ),
            "headers": MapOf(
                meaning="Header fields to send. Credentials belong in headers_from_env.",
                key=_field_name(_SECRET_FIELD),
                value=Text(
                    meaning="The field's value.", wanted="printable ASCII", pattern="[ -~]*", least=0, most=4096
                ),
                most=64,
            ),
            "headers_from_env": MapOf(
                meaning="Header fields to send, each with the environment variable that holds its value.",
                key=_field_name(None),
                value=Text(
                    meaning="Name of an environment variable.",
                    wanted="the name of a variable",
                    pattern=_WORD,
                    most=128,
                ),
                most=64,
            ),
        },
        required=("url",),
    ),
    "command": Record(
        meaning="Run a program without a shell; exit status 0 is ok.",
        members={
            "argv": ListOf(meaning="The program and its arguments.", item=_ARGUMENT, first=_PROGRAM, least=1, most=64)
        },
        required=("argv",),
    ),
    "dns": Record(
        meaning="Resolve a name with the system's resolver.",
        members={"name": Text(meaning="The name.", wanted="a host name in ASCII", pattern=HOST, most=253)},
        required=("name",),
    ),
    "file": Record(
        meaning="Want a file that exists and, if max_age_ms is given, was changed no longer ago.",
        members={
            "path": _path("The file."),
            "max_age_ms": _ms("How long ago it may have been changed.", 1, 366 * _DAY),
        },
        required=("path",),
    ),
    "disk": Record(
        meaning="Want room on the file system of a path: a share of it, a number of bytes, or both.",
        members={
            "path": _path("A file or folder on the file system."),
            "min_free_percent": Figure(
                meaning="Free for users, of the whole.", least=0.01, most=100, unit="percent", fraction=True
            ),
            "min_free_bytes": Figure(meaning="Free for users.", least=1, most=2**50, unit="bytes"),
        },
        required=("path",),
        any_of=("min_free_percent", "min_free_bytes"),
    ),
    "grpc": Record(
        meaning="Ask grpc.health.v1.Health/Check of a server.",
        members={
            "target": Text(
                meaning="HOST:PORT, an IPv6 address in brackets.",
                wanted="HOST:PORT",
                pattern=rf"(?:{HOST}|\[{V6}\]):{PORT}",
                most=300,
            ),
            "service": Text(
                meaning="The service to ask for; the server as a whole unless said otherwise.",
                wanted="the name of a service",
                pattern="[A-Za-z0-9._/-]*",
                least=0,
                most=256,
            ),
            "tls": Flag(meaning="Whether to speak TLS; false unless said otherwise."),
        },
        required=("target",),
    ),
    "python": Record(
        meaning="Call a Python function without arguments; true or None is ok.",
        members={
            "target": Text(
                meaning="MODULE:CALLABLE.",
                wanted="MODULE:CALLABLE",
                pattern=rf"{_WORD}(?:\.{_WORD})*:{_WORD}(?:\.{_WORD})*",
                most=256,
            )
        },
        required=("target",),
    ),
}
"""One row a kind of probe, by its name in the file; the members are those of its class in the model."""

DEPENDENCY: Final = Record(
    meaning="One dependency.",
    members={
        "name": Text(
            meaning="Its name, once in the file.",
            wanted="a name of a-z and 0-9, with - and . inside",
            pattern="[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?",
            most=63,
        ),
        "critical": Flag(meaning="Whether readiness fails with it. A noncritical one only warns."),
        "probe": OneOf(meaning="How it is probed: one key, the kind.", members=PROBES, noun="kind"),
        "timeout_ms": _ms("When a run ends at the latest; below the orchestrator's timeout of readiness.", 1, 60_000),
        "interval_ms": _ms("Time between two runs; no shorter than timeout_ms.", 100, _DAY),
        "cache_ms": _ms(
            "How long a result lives, then the dependency is unknown; at least interval_ms + timeout_ms, and with "
            "refresh: request the orchestrator's period_ms of readiness more.",
            1,
            7 * _DAY,
        ),
        "failure_threshold": Figure(
            meaning="Failures in a row that make it failing; 1 unless said otherwise, and always 1 where critical.",
            least=1,
            most=100,
        ),
        "success_threshold": Figure(
            meaning="Successes in a row that make it ok again; 1 unless said otherwise.", least=1, most=100
        ),
        "refresh": Choice(
            meaning="schedule (unless said otherwise): run each interval. request: run at the start, then when a "
            "request finds a result that would expire before the next request is answered.",
            words=("schedule", "request"),
        ),
    },
    required=("name", "critical", "probe", "timeout_ms", "interval_ms", "cache_ms"),
)


def _figures(meaning: str) -> Record:
    return Record(
        meaning=meaning,
        members={
            "period_ms": _ms("Time between two questions.", 100, _DAY),
            "timeout_ms": _ms("How long an answer may take; no longer than the period.", 1, _DAY),
            "failure_threshold": Figure(meaning="Failures in a row until it acts.", least=1, most=100_000),
        },
        required=("period_ms", "timeout_ms", "failure_threshold"),
    )


MATRIX: Final = Record(
    meaning="What a service depends on, how each is probed, and how the orchestrator asks.",
    members={
        "schema_version": Choice(meaning="Version of this form.", words=("0.1",)),
        "kind": Choice(meaning="What this file is.", words=("idkmesh-probe-matrix",)),
        "orchestrator": Record(
            meaning="The orchestrator's own figures, so that those of the dependencies can be held against them.",
            members={
                "startup": _figures("How it asks whether the service has started; it restarts one that has not."),
                "liveness": _figures("How it asks whether the process makes progress; it restarts one that does not."),
                "readiness": _figures("How it asks whether to send traffic; it never restarts for that."),
            },
            required=("startup", "liveness", "readiness"),
        ),
        "watchdog": Record(
            meaning="How long a part of the process may be silent: interval_ms x max_missed_ticks.",
            members={
                "interval_ms": _ms("Time between two beats.", 10, _HOUR),
                "max_missed_ticks": Figure(meaning="Beats that may be missing.", least=1, most=1000),
            },
            required=("interval_ms", "max_missed_ticks"),
        ),
        "dependencies": ListOf(
            meaning="What the service depends on; may be empty.", item=DEPENDENCY, least=0, most=MAX_DEPENDENCIES
        ),
    },
    required=("schema_version", "kind", "orchestrator", "watchdog", "dependencies"),
)
"""The whole file."""
