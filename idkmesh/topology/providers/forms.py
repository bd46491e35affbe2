"""What a provider may be told, and what it does where nobody says: for itself and for a configuration (RT-9.1)."""

from __future__ import annotations

from typing import Final

ETCD_PREFIX: Final = r"(?:/[A-Za-z0-9._\-]{1,64}){1,8}"
"""RT-7.1; of at most 256 characters."""

MAX_ETCD_PREFIX: Final = 256

NACOS_PORT: Final = r"(?:6453[0-5]|645[0-2][0-9]|64[0-4][0-9]{2}|6[0-3][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"
"""1 to 64535: its gRPC is 1000 above it (RT-8.1)."""

NACOS_WORD: Final = r"[A-Za-z0-9._:\-]{1,128}"
"""A namespace, a group, a cluster."""

DEFAULT_PREFIX: Final = "/idkmesh/agents"
"""What all keys in etcd begin with."""

DEFAULT_NAMESPACE: Final = "public"
DEFAULT_GROUP: Final = "DEFAULT_GROUP"
"""Both are Nacos's own."""
