"""The page's own parser of event streams, against the cases of the standard."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.ui.support import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page


RUN = """async chunks => {
    const { SseParser } = await import("/static/sse.js");
    const events = [];
    const comments = [];
    const parser = new SseParser(event => events.push(event), text => comments.push(text));
    chunks.forEach(chunk => parser.feed(new Uint8Array(chunk)));
    return { events: events.map(({ type, data, lastEventId }) => [type, data, lastEventId]), comments };
}"""


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with running(tmp_path_factory.mktemp("store") / "events.sqlite3") as tower:
        opened = browser.new_page()
        opened.goto(f"{tower.origin}/static/icon.svg")
        yield opened
        opened.close()


def parse(page: Page, *chunks: bytes) -> Any:
    return page.evaluate(RUN, [list(chunk) for chunk in chunks])


CASES: list[tuple[str, tuple[bytes, ...], list[list[str]]]] = [
    ("LF", (b"data: a\n\n",), [["message", "a", ""]]),
    ("CR", (b"data: a\r\r",), [["message", "a", ""]]),
    ("CRLF", (b"data: a\r\n\r\n",), [["message", "a", ""]]),
    (
        "CRLF split across chunks",
        (b"data: a\r", b"\n\r", b"\ndata: b\n\n"),
        [["message", "a", ""], ["message", "b", ""]],
    ),
    ("CR at the end of a chunk, no LF", (b"data: a\r", b"data: b\r\r"), [["message", "a\nb", ""]]),
    ("every byte alone", tuple(bytes([byte]) for byte in b"id: 1\r\ndata: x\r\n\r\n"), [["message", "x", "1"]]),
    ("BOM", (b"\xef\xbb\xbfdata: a\n\n",), [["message", "a", ""]]),
    ("BOM split", (b"\xef", b"\xbb", b"\xbfdata: a\n\n"), [["message", "a", ""]]),
    ("only one BOM", (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n",), [["message", "b", ""]]),
    ("several data lines", (b"data: a\ndata\ndata: b\n\n",), [["message", "a\n\nb", ""]]),
    ("one leading space goes", (b"data:  a\ndata:b\n\n",), [["message", " a\nb", ""]]),
    ("empty data is an event", (b"data\n\n", b"data:\n\n"), [["message", "", ""], ["message", "", ""]]),
    ("no data is none", (b"event: x\nid: 7\n\ndata: a\n\n",), [["message", "a", "7"]]),
    ("type for one event alone", (b"event: x\ndata: a\n\ndata: b\n\n",), [["x", "a", ""], ["message", "b", ""]]),
    (
        "id stays",
        (b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",),
        [["message", "a", "1"], ["message", "b", "1"], ["message", "c", ""]],
    ),
    (
        "id with NUL is ignored",
        (b"id: 1\ndata: a\n\nid: 2\x003\ndata: b\n\n",),
        [["message", "a", "1"], ["message", "b", "1"]],
    ),
    ("unknown fields and retry", (b"retry: 1\nfoo: x\n data: y\ndata: a\n\n",), [["message", "a", ""]]),
    ("no blank line at the end", (b"data: a\n\ndata: lost\n",), [["message", "a", ""]]),
    ("no line end at the end", (b"data: a\n\ndata: lost",), [["message", "a", ""]]),
    (
        "a split character",
        ("data: \u00fc\n\n".encode()[:7], "data: \u00fc\n\n".encode()[7:]),
        [["message", "\u00fc", ""]],
    ),
    ("other line ends are text", ("data: a\u2028b\x0bc\x85\n\n".encode(),), [["message", "a\u2028b\x0bc\x85", ""]]),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_events(page: Page, case: tuple[str, tuple[bytes, ...], list[list[str]]]) -> None:
    """WHATWG HTML 9.2.6: each stream of bytes is these events, wherever the chunks are cut."""
    _, chunks, events = case
    assert parse(page, *chunks)["events"] == events


def test_comments(page: Page) -> None:
    """WHATWG HTML 9.2.6: a line that begins with a colon is a comment and ends no event."""
    parsed = parse(page, b":\n: beat\ndata: a\n:x:y\ndata: b\n\n")
    assert parsed == {"events": [["message", "a\nb", ""]], "comments": ["", " beat", "x:y"]}


def test_too_long_is_the_end(page: Page) -> None:
    """CT-8.9: neither a line nor an event grows without end: beyond 1 MiB nothing more is kept, or read."""
    said = page.evaluate(r"""async () => {
        const { SseParser } = await import("/static/sse.js");
        const bytes = text => new TextEncoder().encode(text);
        const fed = (piece, times) => {
            const events = [];
            const parser = new SseParser(event => events.push(event));
            const whole = Array.from({ length: times }, () => parser.feed(bytes(piece)));
            parser.feed(bytes("\n\ndata: after\n\n"));
            return [whole.at(-1), events.length];
        };
        return [fed("x".repeat(2 ** 18), 6), fed("data: " + "x".repeat(2 ** 18) + "\n", 6), fed("data: a\n\n", 9)];
    }""")
    assert said == [[False, 0], [False, 0], [True, 10]]


@pytest.mark.parametrize(
    "character",
    ["\u202e", "\u200b", "\ufeff", "\U000e0041", "\u3164", "\u115f", "\u2800", "\u034f", "\ufe0f", "\ufff9"],
)
def test_unseen_characters_are_written_out(page: Page, character: str) -> None:
    """CT-8.1: what a reader cannot see is written out, whichever part of Unicode it is from."""
    shown = page.evaluate(
        "text => import('/static/format.js').then(({ visible }) => visible(text))", f"a{character}b\n\u00e4"
    )
    assert shown == f"a\u27e8U+{ord(character):04X}\u27e9b\n\u00e4"


def test_samples_stand_at_their_time(page: Page) -> None:
    """CT-8.3: a history has a hole for each second without a sample, wherever it is; a beat that is late is none."""
    told = page.evaluate("""async () => {
        const { placed } = await import("/static/pages/history.js");
        const of = (seconds, now) => {
            const { runs, missing, current } = placed(seconds.map(at => ({ at: at * 1000, value: 1 })), now * 1000);
            return [runs.map(run => run.length), missing, current];
        };
        return [
            of([0, 1, 2.2, 3, 30, 31], 31.5), of([0, 40], 41), of([1, 2, 3], 9.5), of([0, 100], 101), of([], 5),
            of([0, 1, 2], 100),
        ];
    }""")
    assert told == [
        [[4, 2], 26, True],
        [[1, 1], 39, True],
        [[3], 5, False],
        [[1], 58, True],
        [[], 0, False],
        [[], 0, False],
    ]


def test_copied_bytes_are_the_same_in_any_shell(page: Page) -> None:
    """CT-8.6: a copied command makes the very bytes in a POSIX shell: a first minus, quotes, percent, CR, NUL."""
    data = "-GET / HTTP/1.1\r\nX: it's 100%\\n\x00\u00e4"
    command = page.evaluate(
        "data => import('/static/api.js').then(({ curl }) => curl(\"/it's\", { method: 'POST', data }))", data
    )
    made, _, asking = command.partition(" | ")
    assert subprocess.run(["sh", "-c", made], capture_output=True, check=True).stdout == data.encode()
    assert asking.startswith("curl -X POST")
    assert asking.endswith("/it'\\''s'")


def test_backoff(page: Page) -> None:
    """CT-8.9: waits grow, are never the same for two chances, honour Retry-After, and end at 30 s."""
    waits = page.evaluate("""async () => {
        const { backoff } = await import("/static/backoff.js");
        return {
            tries: [1, 2, 3, 4, 20].map(tries => backoff(tries, 0, 0.5)),
            chances: [0, 0.25, 0.99].map(chance => backoff(3, 2, chance)),
            asked: [backoff(1, 7, 0), backoff(1, 600, 0.5)],
        };
    }""")
    assert waits["tries"] == [375, 750, 1500, 3000, 22500]
    assert len(set(waits["chances"])) == 3
    assert min(waits["chances"]) >= 2000
    assert waits["asked"] == [7000, 30000]
