"""``python -m wsl``."""

import sys

from wsl.cli import main

if __name__ == "__main__":
    sys.exit(main())
