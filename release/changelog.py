"""CHANGELOG.md, as text: its section of one release. Pure."""

from __future__ import annotations

import re
from datetime import date

from release import Refused

_UNRELEASED = "## [Unreleased]"
_HEADING = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<day>\S+))?$", re.MULTILINE)


def section(text: str, version: str) -> str:
    """What the changelog says of `version`, without its heading.

    Raises:
        Refused: it has no dated section of that name, or one that says nothing."""
    headings = list(_HEADING.finditer(text))
    for heading, after in zip(headings, [*headings[1:], None], strict=True):
        if heading["name"] == version:
            found = text[heading.end() : after.start() if after else len(text)].strip()
            if heading["day"] and found:
                return found + "\n"
    raise Refused(
        f"CHANGELOG.md has no section with a date and a text for {version}; nothing was built; "
        f"make it with: make version VERSION={version}"
    )


def opened(text: str, version: str, day: date) -> str:
    """The changelog after what is unreleased has become the section of `version`; [Unreleased] is empty above it.

    Raises:
        Refused: there is a section of `version` already, or nothing is unreleased."""
    names = [heading["name"] for heading in _HEADING.finditer(text)]
    if version in names:
        raise Refused(f"CHANGELOG.md has a section for {version} already; nothing was written")
    head, found, rest = text.partition(_UNRELEASED)
    if not found or not rest.partition("\n## [")[0].strip():
        raise Refused(f"CHANGELOG.md has nothing below {_UNRELEASED}; nothing was written")
    return f"{head}{_UNRELEASED}\n\n## [{version}] - {day.isoformat()}{rest}"
