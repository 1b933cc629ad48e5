"""The command line. A mistake of its user ends in one clear line and exit code 2, never in a traceback."""

from __future__ import annotations

import sys

from framehold_core.errors import FrameholdError

from .commands import app


def main() -> None:
    """Run `framehold`."""
    try:
        app()
    except FrameholdError as error:
        print(f"framehold: {error}", file=sys.stderr)
        sys.exit(2)
