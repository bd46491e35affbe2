"""Stands for a node's command: ``python -I -S node_program.py FOLDER`` does what FOLDER/mode says, and notes its life.

FOLDER/document is what it prints. FOLDER/notes gets a line when it begins (``+``) and one when it ends by itself
(``-``), with its process id and the monotonic time; FOLDER/lost the process ids of what it has left behind.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def text_of(name: str) -> str:
    """Return what stands in a file. Without pathlib, which takes longer to import than all of this."""
    with open(name) as file:  # noqa: PTH123  as above
        return file.read()


def note(folder: str, name: str, line: str) -> None:
    """Append a line, whole."""
    with open(f"{folder}/{name}", "a") as file:  # noqa: PTH123  as above
        file.write(f"{line}\n")


def write(data: bytes) -> None:
    """Write all of it to standard output."""
    while data:
        data = data[os.write(1, data) :]


def leave(folder: str, *, own_session: bool) -> None:
    """Leave a child behind that holds the output open, in this group or in a session of its own."""
    if pid := os.fork():
        note(folder, "lost", str(pid))
        return
    if own_session:
        os.setsid()
    time.sleep(60)
    os._exit(0)


def hang(folder: str) -> None:
    """Leave a child behind, and do nothing."""
    leave(folder, own_session=False)
    time.sleep(60)


def flood() -> None:
    """Print without an end."""
    while True:
        write(b" " * 65_536)


def tell(folder: str) -> None:
    """Note what this process was given: variables, arguments, input, whether it leads a session, descriptors."""
    for line in (*sorted(os.environ), *sys.argv, repr(os.read(0, 1)), str(os.getsid(0) == os.getpid())):
        note(folder, "seen", line)
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208  as above
        note(folder, "descriptors", number)


def main(folder: str) -> int:
    """Do what the mode says, print, and return the exit code."""
    note(folder, "notes", f"+ {os.getpid()} {time.monotonic()}")
    mode, _, argument = text_of(f"{folder}/mode").partition(" ")
    before: dict[str, Callable[[], None]] = {
        "fork": lambda: leave(folder, own_session=False),
        "hang": lambda: hang(folder),
        "daemon": lambda: leave(folder, own_session=True),
        "slow": lambda: time.sleep(float(argument)),
        "flood": flood,
        "tell": lambda: tell(folder),
    }
    if mode in before:
        before[mode]()
    write(b"\x00\xff" * 1000 if mode == "rubbish" else text_of(f"{folder}/document").encode("utf-8"))
    note(folder, "notes", f"- {os.getpid()} {time.monotonic()}")
    return int(argument) if mode == "exit" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
