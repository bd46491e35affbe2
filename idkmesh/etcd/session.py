"""Sessions of ``requests`` for one request to etcd. Only who asks one imports this: ``etcd3gw`` brings the package.

The timeout of ``requests`` is one between two bytes. So each connection has a tether: an answer that trickles, in its
head too, would else hold its thread for as long as whoever sends it likes.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import requests
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

if TYPE_CHECKING:
    import socket

    from idkmesh.etcd.tether import Tether


class _Plain(HTTPConnection):
    tether: Tether

    def _new_conn(self) -> socket.socket:
        return _held(super()._new_conn(), self.tether)


class _Tls(HTTPSConnection):
    tether: Tether

    def _new_conn(self) -> socket.socket:
        return _held(super()._new_conn(), self.tether)


def session_of(tether: Tether) -> requests.Session:
    """Return a session whose connections are held by a tether."""
    session = requests.Session()
    session.trust_env = False  # no proxy and no password file of the user's stands between
    session.headers["Accept-Encoding"] = "identity"
    pools = {
        "http": functools.partial(_pool, HTTPConnectionPool, functools.partial(_connection, _Plain, tether)),
        "https": functools.partial(_pool, HTTPSConnectionPool, functools.partial(_connection, _Tls, tether)),
    }
    for scheme in pools:
        adapter: Any = session.get_adapter(f"{scheme}://")
        adapter.poolmanager.pool_classes_by_scheme = pools
    return session


def _pool(kind: Any, connection: Any, *others: Any, **named: Any) -> Any:  # noqa: ANN401  urllib3's own
    made = kind(*others, **named)
    made.ConnectionCls = connection
    return made


def _connection(kind: Any, tether: Tether, **named: Any) -> Any:  # noqa: ANN401  the same
    made = kind(**named)
    made.tether = tether
    return made


def _held(connection: socket.socket, tether: Tether) -> socket.socket:
    try:
        tether.hold(connection)
    except OSError:
        connection.close()
        raise
    return connection
