"""What a provider does where nobody says otherwise. It imports nothing: whoever judges a configuration reads it too."""

from __future__ import annotations

from typing import Final

DEFAULT_PREFIX: Final = "/idkmesh/agents"
"""What all keys in etcd begin with."""

DEFAULT_NAMESPACE: Final = "public"
DEFAULT_GROUP: Final = "DEFAULT_GROUP"
"""Both are Nacos's own."""
