"""The command `tile` as `python -m tile`, for a Python whose scripts are not on the path."""

from __future__ import annotations

import sys

from tile.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
