"""Reads a router's configuration, or says all that is wrong with it (RT-9.1, RT-9.2).

Three steps, each over the file once: YAML to nodes, nodes to values by the table, and what holds between the values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from idkmesh.router.credentials import Credentials, digest_of
from idkmesh.router.router_rules import PROVIDERS, ROUTER
from idkmesh.router.token_file import TokenFileError, read_password, read_token
from idkmesh.topology.model import MAX_TARGET_CHARACTERS, Target, endpoint_of, snapshot_of
from idkmesh.topology.providers.forms import DEFAULT_GROUP, DEFAULT_NAMESPACE, DEFAULT_PREFIX
from idkmesh.topology.selector import DEFAULT_OBSERVATIONS
from idkmesh.validation.findings import Finding, Findings, RefusedError, Rule
from idkmesh.validation.judging import judge
from idkmesh.validation.text_file import read_text
from idkmesh.validation.yaml_nodes import Mapping, Sequence, parse

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Mapping as Members

    from idkmesh.topology.model import Snapshot
    from idkmesh.validation.yaml_nodes import Node

MAX_FILE_BYTES: Final = 1024 * 1024
"""A thousand releases of three endpoints take a third of it."""


class SecretReaders(NamedTuple):
    """Return what stands in a file, or raise :class:`TokenFileError`."""

    token: Callable[[Path], str]
    password: Callable[[Path], str]


class ConfigurationError(RefusedError[Finding]):
    """A router's configuration is refused."""


@dataclass(frozen=True, slots=True)
class FileSpec:
    """The provider ``file``."""

    path: Path


@dataclass(frozen=True, slots=True)
class DirectSpec:
    """The provider ``direct``."""

    releases: Members[Target, Snapshot]


@dataclass(frozen=True, slots=True)
class EtcdSpec:
    """The provider ``etcd``. ``endpoints`` are URLs."""

    endpoints: tuple[str, ...]
    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NacosSpec:
    """The provider ``nacos``. ``servers`` are ``HOST:PORT``; no ``clusters`` stand for all."""

    servers: tuple[str, ...]
    namespace: str
    group: str
    clusters: tuple[str, ...]
    username: str | None
    password: str | None = field(repr=False)


ProviderSpec = FileSpec | DirectSpec | EtcdSpec | NacosSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterConfiguration:
    """What a router is to do. ``listen`` is a host, an IPv6 address in brackets, and a port."""

    file: Path
    listen: tuple[str, int]
    credentials: Credentials
    provider_name: str
    provider: ProviderSpec
    observe: bool
    max_observations: int


def read_configuration(path: Path | str, *, again: bool = False) -> RouterConfiguration:
    """Read a file, and those of the secrets. Raises :class:`ConfigurationError`, also where it cannot be read.

    ``again`` says that it was read before: then a FIFO is refused.
    """
    findings = Findings(str(path))
    text = read_text(
        path, MAX_FILE_BYTES, "keep releases in a file of their own: provider: {file: ...}", findings, again=again
    )
    if text is None:
        raise ConfigurationError(findings.all())
    return load_configuration(text, Path(path), SecretReaders(read_token, read_password))


def load_configuration(text: str, path: Path, secrets: SecretReaders) -> RouterConfiguration:
    """Return what ``text``, which stands at ``path``, says. Raises :class:`ConfigurationError` with all findings."""
    findings = Findings(str(path))
    root = parse(text, findings)
    values = None if root is None else judge(root, ROUTER, "the file", findings)
    digests: dict[str, bytes] = {}
    if root is not None and isinstance(values, dict):
        digests = _judge_credentials(values, root, findings, lambda name: secrets.token(path.parent / name))
        _judge_password(values, root, findings, lambda name: secrets.password(path.parent / name))
        _judge_releases(values, root, findings)
    if findings or values is None:
        raise ConfigurationError(findings.all())
    return _configuration(values, path, digests)


# --- what holds between values ---------------------------------------------------------------------------------------


def _at(node: Node, *keys: str | int) -> Node:
    """Return what keys and places lead to, or the last node on the way that is there."""
    for key in keys:
        if isinstance(node, Mapping) and key in node.members:
            node = node.members[str(key)].value
        elif isinstance(node, Sequence) and isinstance(key, int) and key < len(node.items):
            node = node.items[key]
    return node


def _judge_credentials(
    values: dict[str, Any], root: Node, findings: Findings, token_of: Callable[[str], str]
) -> dict[str, bytes]:
    """Read each token, and refuse an id or a token that stands twice. Returns the digests by id."""
    found: dict[str, bytes] = {}
    lines: dict[bytes, int] = {}
    for number, row in enumerate(values.get("credentials", ())):
        name, file = (row or {}).get("id"), (row or {}).get("token_file")  # None: it has its finding already
        node = _at(root, "credentials", number)
        mark, path = _at(node, "token_file").mark, ("credentials", number, "token_file")
        if name in found:
            what = f"the id {name} stands here again"
            mend = "give each credential an id of its own"
            findings.add(_at(node, "id").mark, Rule.DUPLICATE_NAME, what, mend, ("credentials", number, "id"))
        if file is None:
            continue
        try:
            digest = digest_of(token_of(file))
        except TokenFileError as error:
            findings.add(mark, Rule.TOKEN, f"the token file {error.what}", error.mend, path)
            continue
        if digest in lines:
            what = f"the token is that of the credential in line {lines[digest]}"
            findings.add(mark, Rule.TOKEN, what, "give each credential a token of its own", path)
        lines.setdefault(digest, node.mark.line)
        if name is not None:
            found.setdefault(name, digest)
    return found


def _judge_password(values: dict[str, Any], root: Node, findings: Findings, password_of: Callable[[str], str]) -> None:
    """Put the password of Nacos in the place of the name of its file."""
    nacos = (values.get("provider") or {}).get("nacos") or {}
    if (file := nacos.pop("password_file", None)) is None:
        return
    try:
        nacos["password"] = password_of(file)
    except TokenFileError as error:
        place = ("provider", "nacos", "password_file")
        findings.add(_at(root, *place).mark, Rule.TOKEN, f"the password file {error.what}", error.mend, place)


def _judge_releases(values: dict[str, Any], root: Node, findings: Findings) -> None:
    """Judge what patterns cannot: whether an endpoint's host is one, and whether a release stands twice."""
    lines: dict[tuple[str, ...], int] = {}
    place: tuple[str | int, ...] = ("provider", "direct", "releases")
    for number, row in enumerate(values.get("provider", {}).get("direct", {}).get("releases", ())):
        node = _at(root, *place, number)
        row = row or {}  # noqa: PLW2901  one that is no mapping has its finding already
        for index, text in enumerate(row.get("endpoints", ())):
            try:
                endpoint_of(text)
            except ValueError:
                if text is not None:
                    at = (*place, number, "endpoints", index)
                    mark = _at(node, "endpoints", index).mark
                    findings.add(mark, Rule.ADDRESS, "the endpoint has no valid host", "correct it", at)
        _judge_target(tuple(row.get(key, "") for key in _TARGET), node, lines, findings)


def _judge_target(name: tuple[str, ...], node: Node, lines: dict[tuple[str, ...], int], findings: Findings) -> None:
    if "" in name:
        return
    if len("/".join(name)) > MAX_TARGET_CHARACTERS:
        mend = f"AGENT/VERSION/RELEASE have {MAX_TARGET_CHARACTERS} characters at most together"
        findings.add(node.mark, Rule.RANGE, "the names of this release are too long", mend)
    if name in lines:
        what = f"this release stands here again, first in line {lines[name]}"
        findings.add(node.mark, Rule.DUPLICATE_NAME, what, "keep one of them")
    lines.setdefault(name, node.mark.line)


# --- values to the model ---------------------------------------------------------------------------------------------

_TARGET: Final = ("agentId", "agentCardVersion", "releaseId")


def _configuration(values: dict[str, Any], path: Path, digests: dict[str, bytes]) -> RouterConfiguration:
    host, _, port = values["listen"].rpartition(":")
    provider = values["provider"]
    (name,) = (each for each in PROVIDERS if each in provider)
    return RouterConfiguration(
        file=path,
        listen=(host, int(port)),
        credentials=Credentials(digests),
        provider_name=name,
        provider=_SPECS[name](provider[name], path.parent),
        observe=provider.get("observe", name != "direct"),
        max_observations=values.get("max_observations", DEFAULT_OBSERVATIONS),
    )


def _file(values: dict[str, Any], folder: Path) -> FileSpec:
    return FileSpec(folder / values["path"])


def _direct(values: dict[str, Any], folder: Path) -> DirectSpec:  # noqa: ARG001  as the others
    releases = {
        Target(*(row[key] for key in _TARGET)): snapshot_of(map(endpoint_of, row["endpoints"]))
        for row in values["releases"]
    }
    return DirectSpec(releases)


def _etcd(values: dict[str, Any], folder: Path) -> EtcdSpec:  # noqa: ARG001  as the others
    return EtcdSpec(tuple(values["endpoints"]), values.get("prefix", DEFAULT_PREFIX))


def _nacos(values: dict[str, Any], folder: Path) -> NacosSpec:  # noqa: ARG001  as the others
    return NacosSpec(
        servers=tuple(values["servers"]),
        namespace=values.get("namespace", DEFAULT_NAMESPACE),
        group=values.get("group", DEFAULT_GROUP),
        clusters=tuple(values.get("clusters", ())),
        username=values.get("username"),
        password=values.get("password"),
    )


_SPECS: Final[dict[str, Callable[[dict[str, Any], Path], ProviderSpec]]] = {
    "file": _file,
    "direct": _direct,
    "etcd": _etcd,
    "nacos": _nacos,
}
