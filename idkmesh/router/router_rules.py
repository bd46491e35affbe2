"""The table of what a router's configuration may say (RT-9.1), from which the published schema is made.

Every range stands here, and nowhere else.
"""

from __future__ import annotations

from typing import Final

from idkmesh.health.matrix_rules import HOST, PORT, V6
from idkmesh.topology.model import ID_PATTERN, MAX_ENDPOINT_CHARACTERS, MAX_ENDPOINTS, VERSION_PATTERN
from idkmesh.topology.providers.forms import (
    DEFAULT_GROUP,
    DEFAULT_PREFIX,
    ETCD_PREFIX,
    MAX_ETCD_PREFIX,
    NACOS_PORT,
    NACOS_WORD,
)
from idkmesh.topology.selector import DEFAULT_OBSERVATIONS, MOST_OBSERVATIONS
from idkmesh.validation.findings import Rule
from idkmesh.validation.shapes import Case, Choice, Figure, Flag, ListOf, Never, Record, Text

MAX_CREDENTIALS: Final = 32
MAX_RELEASES: Final = 1_000
"""That stand in the configuration itself. Who has more keeps them in a file of their own."""

PROVIDERS: Final = ("etcd", "nacos", "file", "direct")

_CREDENTIALS: Final = Never(
    pattern=r"[^/?#]*//[^/?#]*@[\s\S]*",
    rule=Rule.CREDENTIALS,
    what="has credentials in it, which would end up in logs",
    mend="take them out",
)
_TEXT: Final = r"[^\x00-\x1F\x7F]"


def _path(meaning: str) -> Text:
    return Text(meaning=meaning, wanted="a path without NUL", pattern=r"[^\x00]+", most=4096)


def _url(meaning: str, wanted: str) -> Text:
    pattern = rf"[Hh][Tt][Tt][Pp][Ss]?://(?:{HOST}|\[{V6}\]):{PORT}/?"
    return Text(meaning=meaning, wanted=wanted, pattern=pattern, most=MAX_ENDPOINT_CHARACTERS, never=_CREDENTIALS)


def _word(meaning: str) -> Text:
    return Text(meaning=meaning, wanted="a word of A-Z a-z 0-9 and . _ : -", pattern=NACOS_WORD, most=128)


_CREDENTIAL: Final = Record(
    meaning="Somebody who may ask.",
    members={
        "id": Text(
            meaning="What events call it; once in the file.",
            wanted="a name of a-z and 0-9, with - inside",
            pattern="[a-z0-9](?:[a-z0-9-]*[a-z0-9])?",
            most=63,
        ),
        "token_file": _path("The file of its token, of mode 0600; a relative one is beside this file."),
    },
    required=("id", "token_file"),
)
_RELEASE: Final = Record(
    meaning="A release, and where its instances answer.",
    members={
        "agentId": Text(
            meaning="The agent.",
            wanted="an id of A-Z a-z 0-9 . _ - that begins and ends with a letter or digit",
            pattern=ID_PATTERN,
            most=128,
        ),
        "agentCardVersion": Text(
            meaning="The version of its card.",
            wanted="a version of A-Z a-z 0-9 . + _ - that begins and ends with a letter or digit",
            pattern=VERSION_PATTERN,
            most=64,
        ),
        "releaseId": Text(
            meaning="The release.",
            wanted="an id of A-Z a-z 0-9 . _ - that begins and ends with a letter or digit",
            pattern=ID_PATTERN,
            most=128,
        ),
        "endpoints": ListOf(
            meaning="Where its instances answer; may be empty.",
            item=_url("An endpoint.", "http://HOST:PORT or https://HOST:PORT"),
            least=0,
            most=MAX_ENDPOINTS,
        ),
    },
    required=("agentId", "agentCardVersion", "releaseId", "endpoints"),
)
_ETCD: Final = Record(
    meaning="Keys of etcd, those of instances under leases (RT-7).",
    members={
        "endpoints": ListOf(
            meaning="Where its members answer.",
            item=_url("A URL.", "http://HOST:PORT or https://HOST:PORT"),
            least=1,
            most=16,
        ),
        "prefix": Text(
            meaning=f"What all keys begin with; {DEFAULT_PREFIX} unless said otherwise.",
            wanted="up to 8 names of up to 64 characters, such as /idkmesh/agents, without / at the end",
            pattern=ETCD_PREFIX,
            most=MAX_ETCD_PREFIX,
        ),
    },
    required=("endpoints",),
)
_NACOS: Final = Record(
    meaning="Services of Nacos (RT-8); it needs the extra nacos.",
    members={
        "servers": ListOf(
            meaning="Where its servers answer.",
            item=Text(
                meaning="HOST:PORT, an IPv6 address in brackets.",
                wanted="HOST:PORT with a port up to 64535: gRPC is 1000 above it",
                pattern=rf"(?:{HOST}|\[{V6}\]):{NACOS_PORT}",
                most=MAX_ENDPOINT_CHARACTERS,
            ),
            least=1,
            most=16,
        ),
        "namespace": _word("The id of its namespace; public unless said otherwise."),
        "group": _word(f"The group of the services; {DEFAULT_GROUP} unless said otherwise."),
        "clusters": ListOf(
            meaning="Clusters whose instances count; all unless said otherwise.",
            item=_word("A cluster."),
            least=1,
            most=64,
        ),
        "username": Text(
            meaning="Who asks.", wanted="a name without control characters", pattern=f"{_TEXT}+", most=128
        ),
        "password_file": _path("The file of the password, of mode 0600; a relative one is beside this file."),
    },
    required=("servers",),
    cases=(
        Case(key="username", required=("password_file",)),
        Case(key="password_file", required=("username",)),
    ),
)
_PROVIDER: Final = Record(
    meaning="Where releases and their instances are registered: one of etcd, nacos, file, direct.",
    members={
        "etcd": _ETCD,
        "nacos": _NACOS,
        "file": Record(
            meaning="A JSON document that is looked at all the time (RT-6).",
            members={"path": _path("The document; a relative one is beside this file.")},
            required=("path",),
        ),
        "direct": Record(
            meaning="Releases that stand here, and are observed in no way (RT-5.8).",
            members={
                "releases": ListOf(meaning="The releases; may be none.", item=_RELEASE, least=0, most=MAX_RELEASES)
            },
            required=("releases",),
        ),
        "observe": Flag(meaning="Whether releases are observed continuously; true unless said otherwise."),
    },
    required=(),
    one_of=PROVIDERS,
    cases=(Case(key="direct", foreign=("observe",)),),
)

ROUTER: Final = Record(
    meaning="Who may ask a router, where it answers, and where it learns of releases.",
    members={
        "schema_version": Choice(meaning="Version of this form.", words=("0.1",)),
        "kind": Choice(meaning="What this file is.", words=("idkmesh-router",)),
        "listen": Text(
            meaning="Where it answers; port 0 takes a free one.",
            wanted="ADDR:PORT, as in 127.0.0.1:8780 or [::1]:8780",
            pattern=rf"(?:{HOST}|\[{V6}\]):(?:0|{PORT})",
            most=300,
        ),
        "credentials": ListOf(meaning="Who may ask.", item=_CREDENTIAL, least=1, most=MAX_CREDENTIALS),
        "provider": _PROVIDER,
        "max_observations": Figure(
            meaning=f"How many releases are observed at most; {DEFAULT_OBSERVATIONS:,} unless said otherwise.",
            least=1,
            most=MOST_OBSERVATIONS,
        ),
    },
    required=("schema_version", "kind", "listen", "credentials", "provider"),
)
"""The whole file."""
