"""Hosts as they stand in URLs, and which of them are addresses. Pure."""

from __future__ import annotations

import ipaddress


def url_host(host: str) -> str:
    """Return a host as it stands in a URL: an IPv6 address in brackets (RFC 3986 §3.2.2)."""
    return f"[{host}]" if ":" in host else host


def is_address(text: str) -> bool:
    """Say whether a host without brackets is an address, of which there is nothing to look up."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_ipv6(text: str) -> bool:
    """Say whether a text, without brackets, is an IPv6 address."""
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
