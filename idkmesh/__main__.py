"""``python -m idkmesh`` is the ``idkmesh`` command."""

import sys

from idkmesh.cli import main

if __name__ == "__main__":
    sys.exit(main())
