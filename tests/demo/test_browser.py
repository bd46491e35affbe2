"""What the demo says of a page that it was asked to open."""

from __future__ import annotations

import webbrowser
from typing import TYPE_CHECKING

import pytest

from idkmesh.demo.browser import NOT_OPENED, OPENED, Browser

if TYPE_CHECKING:
    from collections.abc import Callable


def raises(link: str) -> bool:
    raise webbrowser.Error(link)


@pytest.mark.parametrize(
    ("opens", "line"), [(lambda _: True, OPENED), (lambda _: False, NOT_OPENED), (raises, NOT_OPENED)]
)
def test_what_came_of_it_is_told_once(opens: Callable[[str], bool], line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """DM-4.1: whether a browser has taken the link is a line, without the link's token (DM-3.5)."""
    monkeypatch.setattr(webbrowser, "open", opens)
    browser = Browser("http://127.0.0.1:1/#token=secret")
    assert list(browser.told()) == []
    browser._open()
    assert list(browser.told()) == [line]
    assert list(browser.told()) == []
