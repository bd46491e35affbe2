"""Programs that ask something else than themselves, and how to tell whom."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from idkmesh.inspection.commands import name_tokens, option
from idkmesh.inspection.public import shown_host, shown_program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from idkmesh.inspection.commands import Command, Simple

STORES: Final[Mapping[str, frozenset[str]]] = {
    "PostgreSQL": frozenset({"postgres", "postgresql", "postgis", "pgbouncer", "timescaledb"}),
    "MySQL": frozenset({"mysql", "mariadb", "percona"}),
    "Redis": frozenset({"redis", "valkey", "keydb"}),
    "MongoDB": frozenset({"mongo", "mongodb"}),
    "Kafka": frozenset({"kafka", "redpanda"}),
    "RabbitMQ": frozenset({"rabbitmq", "amqp", "amqps"}),
    "Elasticsearch": frozenset({"elasticsearch", "opensearch"}),
    "Cassandra": frozenset({"cassandra", "scylla"}),
    "SQL Server": frozenset({"mssql", "sqlserver"}),
    "Memcached": frozenset({"memcached"}),
    "etcd": frozenset({"etcd"}),
    "ZooKeeper": frozenset({"zookeeper"}),
    "NATS": frozenset({"nats"}),
    "object storage": frozenset({"minio", "s3"}),
}
"""Stores, and the parts of names, images and URLs by which they go."""

DEPENDENCY_WORDS: Final = frozenset({"db", "database", "databases", "dependency", "dependencies", "deps", "downstream"})
READY_WORDS: Final = frozenset({"ready", "readyz", "readiness"})

_HOST_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "pg_isready": ("-h", "--host"),
    "psql": ("-h", "--host"),
    "mysqladmin": ("-h", "--host"),
    "mysql": ("-h", "--host"),
    "mariadb": ("-h", "--host"),
    "mariadb-admin": ("-h", "--host"),
    "redis-cli": ("-h",),
    "valkey-cli": ("-h",),
    "mongo": ("--host",),
    "mongosh": ("--host",),
    "nodetool": ("-h", "--host"),
    "sqlcmd": ("-S",),
    "etcdctl": ("--endpoints",),
    "kafka-topics.sh": ("--bootstrap-server",),
    "kafka-topics": ("--bootstrap-server",),
    "kafka-broker-api-versions.sh": ("--bootstrap-server",),
    "kafka-broker-api-versions": ("--bootstrap-server",),
    "kcat": ("-b",),
    "kafkacat": ("-b",),
    "grpc_health_probe": ("-addr", "--addr"),
}
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/?#\s]*@)?(\[[^\]\s]*\]|[^/:?#\s]*)", re.IGNORECASE)
_LOCAL: Final = frozenset({"", "localhost", "127.0.0.1", "::1", "0.0.0.0", "::", "."})  # noqa: S104  compared, not bound
_VARIABLE: Final = re.compile(r"^\$[({]?([A-Za-z_][A-Za-z0-9_ -]*)?[)}]?$|^`.*`$")


def asked_host(simple: Simple) -> str | None:
    """Return the host that a client program is told to ask, None where it is told none or is no client."""
    if simple.program in {"curl", "wget", "http", "https"}:
        return _http_host(simple)
    if simple.program in {"nc", "ncat", "telnet", "wait-for-it.sh", "wait-for-it", "cqlsh"}:
        plain = [word for word in simple.words if not word.startswith("-")]
        return plain[0].rpartition("@")[2].partition(":")[0] if plain else None
    host = option(simple.words, *_HOST_OPTIONS.get(simple.program, ()))
    if simple.program in _HOST_OPTIONS:
        urls = (match for word in simple.words if (match := _URL.match(word)))
        host = host if host is not None else next((match[1] for match in urls), None)
    if host is None:
        return None
    match = _URL.match(host)
    return match[1] if match else _without_port(host.rpartition("@")[2].lstrip("=").removeprefix("tcp:").split(",")[0])


def _http_host(simple: Simple) -> str | None:
    if option(simple.words, "--unix-socket") is not None:
        return None
    url = next((match for word in simple.words if (match := _URL.match(word))), None)
    if url is not None:
        return url[1]  # a word before it may be the value of an option that is not known here
    skip = False
    for word in simple.words:
        if skip or word.startswith("-"):
            # Short options can be joined: -so FILE.
            joined = f"-{word[-1]}" if word.startswith("-") and not word.startswith("--") else word
            skip = not skip and (word in _CURL_VALUES or joined in _CURL_VALUES)
            continue
        return _without_port(word.partition("/")[0].rpartition("@")[2])
    return None


_CURL_VALUES: Final = frozenset({"-o", "-w", "-H", "-m", "-X", "-u", "-d", "-O", "-T", "-t", "-b"}) | {
    "-A", "-e", "-E", "-U", "-F", "-K", "-x",
    "--output", "--write-out", "--header", "--max-time", "--request", "--user", "--data", "--connect-timeout",
    "--retry", "--retry-delay", "--cacert", "--cert", "--key", "--tries", "--post-data", "--timeout",
    "--oauth2-bearer", "--proxy-user", "--proxy", "--pass", "--form", "--http-user", "--http-password", "--password",
}  # fmt: skip
"""Options of curl and wget whose value is the next word. ``-O`` takes one in wget alone, before its URL."""


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0]


def is_local(host: str, own_names: frozenset[str]) -> bool:
    """Say whether a host is the container itself, as far as its name tells: a variable is, unless it names a store."""
    host = host.strip("[]").lower()
    if host in _LOCAL or host.startswith("127.") or host in own_names:
        return True
    if _VARIABLE.match(host) or host.startswith("$"):
        return not store_words(host, frozenset())
    return False


def store_words(text: str, own_names: frozenset[str]) -> frozenset[str]:
    """Return the parts of a text that name a store or a dependency, but for those in the owner's own names."""
    tokens = name_tokens(text)
    known = DEPENDENCY_WORDS.union(*STORES.values())
    return frozenset((tokens & known) - own_names)


def named_dependency(command: Command, own_names: frozenset[str], *, ready: bool) -> str | None:
    """Return, in words, what a command asks beyond its own container; None where nothing shows.

    ``own_names`` are the parts of the names of container and image: Redis may ask Redis. With ``ready`` a script that
    is called so counts, since readiness covers dependencies.
    """
    for simple in command.simple:
        host = asked_host(simple)
        if host is not None and not is_local(host, own_names):
            return f"{simple.program} asks {shown_host(host)}"
        if simple.program == "celery" and "inspect" in simple.words:
            return "celery inspect asks over the broker"
        texts = [simple.program]
        if simple.program in _INTERPRETERS:
            texts += simple.words
        if simple.program in _HOST_OPTIONS or host is not None:
            texts = []
        for text in texts:
            words = store_words(text, own_names)
            if words:
                return f"{_shown(text, simple)} names {', '.join(sorted(words))}"
            if ready and name_tokens(text) & READY_WORDS:
                return f"{_shown(text, simple)} is readiness by its name"
    return None


def _shown(text: str, simple: Simple) -> str:
    """Return the name of a program or a script; in place of other words, which may be anything, what is given them."""
    script = text == simple.program or _SCRIPT.fullmatch(text)
    return shown_program(text if script else simple.program)[:60]


_SCRIPT: Final = re.compile(r"[\w./-]+\.(?:py|js|mjs|rb|pl|php|jar|dll|sh)")

_INTERPRETERS: Final = frozenset({"python", "python3", "node", "ruby", "perl", "php", "java", "dotnet", "manage.py"})


def store_of(text: str) -> str | None:
    """Return the store that a name, an image or a URL speaks of, or None."""
    tokens = name_tokens(text)
    return next((store for store, names in STORES.items() if tokens & names), None)
