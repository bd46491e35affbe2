"""A configuration that is read again: whose credentials count from then on, and what is told of the rest."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NoReturn

import pytest

from idkmesh.httpd.request import HeadLimits
from idkmesh.httpd.request_rules import Request, judge_head
from idkmesh.router import reloading
from idkmesh.router.configuration import read_configuration
from idkmesh.router.credentials import FORBIDDEN

if TYPE_CHECKING:
    from pathlib import Path

    from idkmesh.httpd.request import Refusal
    from idkmesh.router.configuration import RouterConfiguration

OLD, NEW, OTHER = "o" * 40, "n" * 40, "x" * 40


class Site:
    """A router's configuration with its files, and the lines of its readings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[tuple[str, int]] = []
        self.write(one=OLD, two=OTHER)
        self.running: RouterConfiguration = read_configuration(folder / "router.yaml")

    def write(self, provider: str = "file: {path: r.json}", listen: str = "127.0.0.1:0", **tokens: str) -> None:
        for name, token in tokens.items():
            file = self.folder / name
            file.write_text(token)
            file.chmod(0o600)
        rows = "".join(f"  - {{id: {name}, token_file: {name}}}\n" for name in tokens)
        (self.folder / "router.yaml").write_text(
            'schema_version: "0.1"\nkind: idkmesh-router\n'
            f"listen: {listen}\nprovider: {{{provider}}}\ncredentials:\n{rows}"
        )

    def reload(self) -> bool:
        return reloading.reload_credentials(self.running, lambda line, level: self.lines.append((line, level)))

    def who(self, token: str) -> str | Refusal:
        """Return whose a token is, or the refusal."""
        head = f"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        judged = judge_head(head, HeadLimits())
        assert isinstance(judged, Request)
        return self.running.credentials.of(judged)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_credentials_are_taken(site: Site) -> None:
    """RT-9.11: another token, a credential more and one less count from then on, and the line has no token."""
    site.write(one=NEW, three="3" * 40)
    assert (site.who(OLD), site.who(OTHER), site.who(NEW)) == ("one", "two", FORBIDDEN)
    assert site.reload()
    assert (site.who(NEW), site.who("3" * 40), site.who(OLD), site.who(OTHER)) == ("one", "three", FORBIDDEN, FORBIDDEN)
    assert site.running.credentials.ids == ("one", "three")
    told = "the router's credentials were read again: 0 kept, 1 with another token, 1 added, 1 removed"
    assert site.lines == [(told, logging.INFO)]


def test_what_is_refused_changes_nothing(site: Site) -> None:
    """RT-9.11: a configuration or a token file with a fault is one line with its place, and the old tokens stay."""
    site.write(one=NEW, two="short-s3cret")
    assert not site.reload()
    assert (site.who(OLD), site.who(NEW)) == ("one", FORBIDDEN)
    ((line, level),) = site.lines
    assert level == logging.ERROR
    assert line.startswith(
        f"the router's configuration is refused, the running credentials stay: {site.folder}/router.yaml:"
    )
    assert "s3cret" not in line
    (site.folder / "router.yaml").unlink()
    assert not site.reload()
    assert site.who(OLD) == "one"


def test_what_takes_a_restart_is_told(site: Site) -> None:
    """RT-9.11: the credentials are taken; of the rest each that is another is named, and stays as it was."""
    site.write("etcd: {endpoints: ['http://s3cret:2379']}", "127.0.0.1:1", one=NEW, two=OTHER)
    assert site.reload()
    assert site.who(NEW) == "one"
    assert site.running.listen == ("127.0.0.1", 0)
    assert site.lines == [
        ("the router's credentials were read again: 1 kept, 1 with another token, 0 added, 0 removed", logging.INFO),
        ("the router's configuration has another listen, provider, which takes a restart", logging.WARNING),
    ]


def test_a_fault_of_ours(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """RT-9.11, RT-11.5: it ends nobody, and only its kind is told."""

    def fault(*_: object, **__: object) -> NoReturn:
        raise RuntimeError("s3cret")

    monkeypatch.setattr(reloading, "read_configuration", fault)
    assert not site.reload()
    told = "the router's configuration was not taken, the running credentials stay: RuntimeError"
    assert site.lines == [(told, logging.ERROR)]
