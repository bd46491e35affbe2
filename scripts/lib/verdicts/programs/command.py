"""A command that is as a file says, then becomes another: ``python command.py FILE LEFT [PROGRAM ARGUMENT ...]``.

Words: ok, hang, flood (without an end where there is a program, else 64 MiB), leave (a child in this group that holds
the output; ``LEFT`` is the word by which it is found).
"""

import os
import sys

with open(sys.argv[1], encoding="ascii") as file:  # noqa: PTH123  as little as can be is imported
    word = file.read().strip()
left, rest = sys.argv[2], sys.argv[3:]
if word == "hang":
    import time

    time.sleep(60)
if word == "flood":
    block = b"x" * 65536
    for _ in range(1024) if not rest else iter(int, 1):
        os.write(1, block)
if word == "leave" and os.fork() == 0:
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)", left])  # noqa: S606  no shell
if rest:
    os.execv(rest[0], rest)  # noqa: S606  no shell
