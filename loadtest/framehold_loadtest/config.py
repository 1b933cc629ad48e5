"""The environment of this process, and the environment that it gives to its child processes."""

from __future__ import annotations

import os


def inherited() -> dict[str, str]:
    """The environment of a child, without any setting of Framehold: each run has its own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FRAMEHOLD_")}


def variable(name: str) -> str:
    """An environment variable that the parent process has set.

    Raises:
        KeyError: it is not set.
    """
    return os.environ[name]


def set_variable(name: str, value: str) -> None:
    """Set a variable that only this process can know, before settings are read."""
    os.environ[name] = value
