"""The table of what a declaration of modules may say (AR-2), from which the published schemas are made.

Every range stands here, and nowhere else. Times are whole seconds. The patterns of a readiness command are read alike
by Python and by ECMA 262 with the flags ``u`` and ``v``, so that a form in a browser can judge by them.
"""

from __future__ import annotations

import re
import string
from typing import Final

from idkmesh.health.matrix_rules import HOST, PORT, V6
from idkmesh.validation.findings import Rule
from idkmesh.validation.shapes import Case, Choice, Figure, ListOf, MapOf, Never, Record, Text

MAX_MODULES: Final = 1000
MAX_INSTANCES: Final = 1000
MAX_REPLICAS: Final = 64
MAX_IN_ALL: Final = 10_000
"""Instances named and replicas, over all modules. The list of modules is one document of 400 bytes an instance, which
this keeps at 4 MB; and at eight checks at once, of 50 ms each, their pass takes a minute."""
MAX_CLASSES: Final = 64

SHELLS: Final = ("sh", "bash", "dash", "ash", "zsh", "ksh", "csh", "tcsh", "fish", "busybox")
"""Programs that would make a script of an argument, by base name (AR-2.3)."""

_CONTROL: Final = r"\x00-\x1F\x7F-\x9F\uD800-\uDFFF"
"""Control characters, and halves of surrogate pairs, which no argument list can carry."""

_SHELL: Final = Never(
    pattern=rf"(?:[^{_CONTROL}]*\/)?(?:{'|'.join(SHELLS)})",
    rule=Rule.SHELL,
    what="is a shell, which would make a script of an argument",
    mend="name the program itself with its arguments, each an item; put more into a program of the image",
)
_EXAMPLE: Final = "[python3, check.py]"
_PROGRAM_SIGN: Final = r"[A-Za-z0-9_.\/+\-]"
_PROGRAM: Final = Text(
    meaning="The program, by name or path in the instance; no shell.",
    wanted="a program of A-Z, a-z, 0-9 and _ . / + -",
    pattern=f"{_PROGRAM_SIGN}+",
    most=200,
    never=_SHELL,
    sign=_PROGRAM_SIGN,
    mends={
        "~": "write the whole path: no shell fills in a home folder",
        "$": "write the path itself: no shell fills in a variable",
        " ": f"write the program and each argument as an item, such as {_EXAMPLE}",
    },
)
_ARGUMENT: Final = Text(
    meaning="An argument, as the program gets it.",
    wanted="a text without control characters",
    pattern=rf"[^{_CONTROL}]*",
    least=0,
    most=200,
)

READINESS: Final = Record(
    meaning="A program that runs inside each instance; exit status 0 means ready. Its output is not read.",
    members={
        "command": ListOf(
            meaning="The program, then at most 8 arguments. No shell reads them.",
            item=_ARGUMENT,
            first=_PROGRAM,
            least=1,
            most=9,
            example=_EXAMPLE,
        ),
        "timeoutSecs": Figure(
            meaning="How long it may take, then it is killed and has failed; 5 unless said otherwise.",
            least=1,
            most=15,
            unit="seconds",
        ),
    },
    required=("command",),
)
"""A readiness command (AR-2.3)."""


_NAME_MENDS: Final = dict.fromkeys("_. ", "write - there") | {
    capital: f"write {capital.lower()} there" for capital in string.ascii_uppercase
}


def _name(meaning: str) -> Text:
    return Text(
        meaning=meaning,
        wanted="a name of a-z and 0-9, with - inside",
        pattern="[a-z0-9](?:[a-z0-9-]*[a-z0-9])?",
        most=63,
        sign="[a-z0-9-]",
        mends=_NAME_MENDS,
    )


def _path(meaning: str, most: int = 4096) -> Text:
    return Text(meaning=meaning, wanted="a path that begins with /", pattern=rf"/[^{_CONTROL}]*", most=most)


def _url(meaning: str, schemes: str, wanted: str) -> Text:
    never = Never(
        pattern=r"[^/?#]*//[^/?#]*@[\s\S]*",
        rule=Rule.CREDENTIALS,
        what="has credentials in it, which would end up in logs",
        mend="take them out; a certificate says who asks",
    )
    return Text(
        meaning=meaning,
        wanted=wanted,
        pattern=rf"{schemes}://(?:{HOST}|\[{V6}\])(?::{PORT})?/?",
        most=512,
        never=never,
    )


_NAME: Final = _name("Its name, once in the file.")
_INSTANCE: Final = Text(
    meaning="Name of an instance.",
    wanted="a name of letters and 0-9 that begins with a letter, with - inside",
    pattern="[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?",
    most=63,
    sign="[A-Za-z0-9-]",
    mends=dict.fromkeys("_. ", "write the name that lxc list has: no instance has such a one"),
)
_PROCESS: Final = Record(
    meaning="What the process driver starts, for development.",
    members={
        "argv": ListOf(
            meaning="The program and its arguments.",
            item=Text(meaning="An argument.", wanted="a text without NUL", pattern=r"[^\x00]*", least=0, most=32_768),
            first=Text(meaning="The program.", wanted="a program without NUL", pattern=r"[^\x00]+", most=4096),
            least=1,
            most=64,
            example="[python3, worker.py]",
        ),
        "cwd": _path("Where it runs; where the supervisor runs unless said otherwise."),
    },
    required=("argv",),
)

MODULE: Final = Record(
    meaning="One program in one or more instances.",
    members={
        "name": _NAME,
        "kind": Choice(
            meaning="Only a replica of a stateless module is ever restarted; the others are reported.",
            words=("stateless", "singleton", "stateful"),
        ),
        "driver": Choice(
            meaning="lxd: instances of LXD or Incus. process: processes that the supervisor starts, for development.",
            words=("lxd", "process"),
        ),
        "class": _name("The class that gives the readiness command, of this file or of the catalog."),
        "readiness": READINESS,
        "port": Figure(meaning="A TCP port that each instance listens on; it is asked besides.", least=1, most=65_535),
        "instances": ListOf(
            meaning="Names of the instances; each belongs to one module.", item=_INSTANCE, least=1, most=MAX_INSTANCES
        ),
        "selector": MapOf(
            meaning="Configuration that each instance of this module has, and no other.",
            key=Text(
                meaning="A configuration key.",
                wanted="a configuration key such as user.idkmesh.module",
                pattern="[A-Za-z][A-Za-z0-9._/-]*",
                most=255,
            ),
            value=Text(
                meaning="Its value, whole.",
                wanted="a text without control characters",
                pattern=rf"[^{_CONTROL}]+",
                most=255,
            ),
            least=1,
            most=16,
        ),
        "replicas": Figure(meaning="How many processes are started.", least=1, most=MAX_REPLICAS),
        "process": _PROCESS,
    },
    required=("name", "kind", "driver"),
    any_of=("port", "readiness", "class"),
    cases=(
        Case(key="driver", word="lxd", one_of=("instances", "selector"), foreign=("replicas", "process")),
        Case(key="driver", word="process", required=("replicas", "process"), foreign=("instances", "selector")),
    ),
)
"""A module (AR-2.2)."""

_LEASE: Final = Record(
    meaning="Where the lease is kept that says which supervisor acts; sqlite unless said otherwise.",
    members={
        "sqlite": Record(
            meaning="A file, for the supervisors of one host.",
            members={"path": _path("The file; beside the event store unless said otherwise.")},
            required=(),
        ),
        "etcd": Record(
            meaning="etcd, for several hosts.",
            members={
                "endpoints": ListOf(
                    meaning="Where it answers.",
                    item=_url("A URL.", "https?", "a URL such as https://etcd-1:2379, without path"),
                    least=1,
                    most=16,
                )
            },
            required=("endpoints",),
        ),
        "ttl_s": Figure(
            meaning="How long a lease lasts that is not renewed; 15 unless said otherwise.",
            least=5,
            most=300,
            unit="seconds",
        ),
        "name": _name("Tells supervisors apart that do not belong together; default unless said otherwise."),
    },
    required=(),
    one_of=("sqlite", "etcd"),
)
_SUPERVISOR: Final = Record(
    meaning="The supervisor's own figures.",
    members={
        "interval_s": Figure(
            meaning="Time from one pass to the next; 5 unless said otherwise.", least=1, most=60, unit="seconds"
        ),
        "cooldown_s": Figure(
            meaning="An instance is restarted at most once in this time; 300 unless said otherwise.",
            least=60,
            most=86_400,
            unit="seconds",
        ),
        "lease": _LEASE,
    },
    required=(),
)
_LXD: Final = Record(
    meaning="How LXD or Incus is reached: by its socket, or by HTTPS with a client certificate.",
    members={
        "socket": _path(
            "Its Unix socket: /var/lib/lxd/unix.socket with Debian's package, "
            "/var/snap/lxd/common/lxd/unix.socket with the snap, /var/lib/incus/unix.socket with Incus.",
            most=107,
        ),
        "url": _url("Where it answers.", "https", "a URL such as https://host:8443, without path"),
        "cert": _path("The client's certificate, PEM."),
        "key": _path("The client's private key, PEM."),
        "server_cert": _path("The certificate that the server must show, PEM."),
        "project": Text(
            meaning="Its project; default unless said otherwise.",
            wanted="a name of letters and 0-9, with - and . inside",
            pattern="[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?",
            most=63,
        ),
    },
    required=(),
    one_of=("socket", "url"),
    cases=(
        Case(key="url", required=("cert", "key")),
        Case(key="socket", foreign=("cert", "key", "server_cert")),
    ),
)
_CLASS: Final = Record(
    meaning="What modules of a class have in common.",
    members={
        "runtime": Record(
            meaning="How its instances are run.", members={"readiness": READINESS}, required=("readiness",)
        )
    },
    required=("runtime",),
)

DECLARATION: Final = Record(
    meaning="Modules, where their instances are, and how each says that it is ready.",
    members={
        "schema_version": Choice(meaning="Version of this form.", words=("0.1",)),
        "kind": Choice(meaning="What this file is.", words=("idkmesh-modules",)),
        "supervisor": _SUPERVISOR,
        "platforms": Record(meaning="How platforms are reached.", members={"lxd": _LXD}, required=()),
        "classes": MapOf(
            meaning="Classes of modules by name; one with the name of the catalog's wins.",
            key=_name("Name of a class."),
            value=_CLASS,
            most=MAX_CLASSES,
        ),
        "modules": ListOf(meaning="The modules; may be empty.", item=MODULE, least=0, most=MAX_MODULES),
    },
    required=("schema_version", "kind", "modules"),
)
"""The whole file (AR-2.1)."""


def is_instance_name(name: object) -> bool:
    """Say whether an instance may have this name (AR-2.5)."""
    return isinstance(name, str) and len(name) <= _INSTANCE.most and re.fullmatch(_INSTANCE.pattern, name) is not None
