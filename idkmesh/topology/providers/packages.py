"""Says which extra brings a package that a provider needs (RT-8.4)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final


class MissingPackageError(Exception):
    """A provider needs a package that is not installed. Its text is one line that says what to do."""


_PACKAGES: Final = {"etcd": ("etcd3gw", "etcd3gw"), "nacos": ("v2.nacos", "nacos-sdk-python")}
"""By the name of a provider, and of its extra: the module that is looked for, and the package that has it."""


def need(provider: str) -> None:
    """Raise :class:`MissingPackageError` where the package of a provider is not there. Nothing is imported."""
    module, package = _PACKAGES[provider]
    try:
        found = find_spec(module) is not None
    except (ImportError, ValueError):  # of a module whose package is not there, or is another one of this name
        found = False
    if not found:
        mend = f"pip install 'idkmesh[{provider}]'"
        raise MissingPackageError(f"the provider {provider} needs the package {package}: {mend}")
