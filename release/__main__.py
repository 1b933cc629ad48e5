"""`python -m release version 1.2.3` and `python -m release make`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from release import Refused, images, places, registry, steps
from release.changelog import opened

ROOT = Path(__file__).resolve().parents[1]


def main(words: list[str] | None = None, root: Path = ROOT, ask: Callable[[str], str] = registry.digest) -> int:
    """Run the command of `words`; 0 if it was done. `ask` gives the digest of an image."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    version = commands.add_parser("version", help="write a new version into all files, and open its changelog section")
    version.add_argument("version")
    commands.add_parser("make", help="build, check, list the parts, and tag what is committed")
    chosen = parser.parse_args(words)
    try:
        if chosen.command == "version":
            set_version(root, chosen.version, ask)
        else:
            steps.make(root)
    except Refused as why:
        print(f"release: {why}", file=sys.stderr)
        return 1
    return 0


def set_version(root: Path, new: str, ask: Callable[[str], str]) -> None:
    """Write the version `new` into all places and the digests of images behind their tags, and turn the changelog's
    [Unreleased] into the section of `new`.

    Raises:
        Refused: `new` is no version, there is nothing to release, or a registry does not answer."""
    page = root / "CHANGELOG.md"
    text = opened(page.read_text("utf-8"), new, datetime.now(UTC).date())
    digests = images.asked(root, ask)
    changed = {*places.write(root, new), *images.FILES, "CHANGELOG.md"}
    images.write(root, digests)
    page.write_text(text, "utf-8")
    print(f"wrote {new} into {', '.join(sorted(changed))}")
    print("next: read `git diff`, commit it by a reviewed change, then: make release")


if __name__ == "__main__":
    sys.exit(main())
