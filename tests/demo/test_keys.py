"""Keys as a terminal hands them over."""

from __future__ import annotations

import pytest

from idkmesh.demo.keys import END_OF_INPUT, pressed


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"1", "1"),
        (b"1s1", "1s"),
        (b"2" * 4095 + b"q", "2q"),
        (b"\xc3\xa4u", "\ufffdu"),
        (b"", END_OF_INPUT),
    ],
)
def test_each_key_counts_once_a_turn(data: bytes, keys: str) -> None:
    """DM-4.1: a key that is held down, and a paste, are one press of each: who ends the demo then is heard at once."""
    assert pressed(data) == keys
