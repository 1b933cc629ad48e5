"""`python -m release version 1.2.3` and `python -m release make`."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from release import Refused, places, steps
from release.changelog import opened

ROOT = Path(__file__).resolve().parents[1]


def main(words: list[str] | None = None, root: Path = ROOT) -> int:
    """Run the command of `words`; 0 if it was done."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    version = commands.add_parser("version", help="write a new version into all files, and open its changelog section")
    version.add_argument("version")
    commands.add_parser("make", help="build, check, list the parts, and tag what is committed")
    chosen = parser.parse_args(words)
    try:
        if chosen.command == "version":
            set_version(root, chosen.version)
        else:
            steps.make(root)
    except Refused as why:
        print(f"release: {why}", file=sys.stderr)
        return 1
    return 0


def set_version(root: Path, new: str) -> None:
    """Write the version `new` into all places, and turn the changelog's [Unreleased] into its section.

    Raises:
        Refused: `new` is no version, or there is nothing to release."""
    page = root / "CHANGELOG.md"
    text = opened(page.read_text("utf-8"), new, datetime.now(UTC).date())
    changed = places.write(root, new)
    page.write_text(text, "utf-8")
    print(f"wrote {new} into {', '.join([*changed, 'CHANGELOG.md'])}")
    print("next: read `git diff`, commit it by a reviewed change, then: make release")


if __name__ == "__main__":
    sys.exit(main())
