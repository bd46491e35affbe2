"""The ``idkmesh`` command and ``python -m idkmesh``: what must stand before anything slow is imported."""

import os
import signal
import sys
from types import FrameType


def main() -> int:
    """Run the command and return its exit code. A signal during its imports ends it at once and without a word."""
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        # A shell starts what runs in the background with SIGINT ignored, and that is to stay so.
        if signal.getsignal(number) == default:
            signal.signal(number, _end)
    from idkmesh.cli import main as command  # noqa: PLC0415  its imports are what takes time

    return command()


def _end(number: int, _frame: FrameType | None) -> None:
    """End as a shell reports a program that the signal has ended; nothing is open yet, or nothing any more."""
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
