"""What the room reads of the environment, and what its children get of it."""

from __future__ import annotations

import os


def inherited() -> dict[str, str]:
    """The environment of a child, without any setting of Framehold: each run says its own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FRAMEHOLD_")}


def told(name: str) -> str:
    """What whoever started this process told it.

    Raises:
        KeyError: it was not told.
    """
    return os.environ[name]


def tell(name: str, value: str) -> None:
    """Set what only this process can know, before a setting is read."""
    os.environ[name] = value
