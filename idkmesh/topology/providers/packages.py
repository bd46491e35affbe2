"""Says which extra brings a package that a provider needs (RT-8.4)."""

from __future__ import annotations

from importlib.util import find_spec


class MissingPackageError(Exception):
    """A provider needs a package that is not installed. Its text is one line that says what to do."""


def need(module: str, package: str, provider: str) -> None:
    """Raise :class:`MissingPackageError` where a module is not there. Nothing is imported."""
    try:
        found = find_spec(module) is not None
    except (ImportError, ValueError):  # of a module whose package is not there, or is another one of this name
        found = False
    if not found:
        mend = f"pip install 'idkmesh[{provider}]'"
        raise MissingPackageError(f"the provider {provider} needs the package {package}: {mend}")
