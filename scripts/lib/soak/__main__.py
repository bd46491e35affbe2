"""``python -m scripts.lib.soak``: see ``command.py``."""

from scripts.lib.soak.command import main

if __name__ == "__main__":
    raise SystemExit(main())
