// Requests to try. Text as it would be typed, with how it is sent.

const CRLF = { endings: "crlf", escapes: true };
const TYPED = { endings: "typed", escapes: true };

export const EXAMPLES = [
  ["Good", "GET /search?q=mesh HTTP/1.1\nHost: localhost\nAccept: */*\n\n", CRLF],
  [
    "Good, with a body",
    "POST /notes HTTP/1.1\nHost: localhost\nContent-Type: text/plain\nContent-Length: 5\n\nhello",
    CRLF,
  ],
  ["Two hosts", "GET / HTTP/1.1\nHost: a.example\nHost: b.example\n\n", CRLF],
  ["No host", "GET / HTTP/1.1\nAccept: */*\n\n", CRLF],
  [
    "Length and chunked",
    "POST / HTTP/1.1\nHost: localhost\nContent-Length: 4\nTransfer-Encoding: chunked\n\n0\n\n",
    CRLF,
  ],
  ["Two lengths", "POST / HTTP/1.1\nHost: localhost\nContent-Length: 4\nContent-Length: 5\n\nabcd", CRLF],
  ["Bare line feed", "GET / HTTP/1.1\nHost: localhost\n\n", TYPED],
  ["Space before the colon", "GET / HTTP/1.1\nHost: localhost\nX-Note : spaced\n\n", CRLF],
  ["Folded line", "GET / HTTP/1.1\nHost: localhost\nX-Note: one\n two\n\n", CRLF],
  ["NUL in a value", "GET / HTTP/1.1\nHost: localhost\nX-Note: a\\x00b\n\n", CRLF],
  ["Not finished", "GET / HTTP/1.1\nHost: localhost\n", CRLF],
];
