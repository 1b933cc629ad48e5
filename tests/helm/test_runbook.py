"""The runbook can be followed: each section says what a person at night needs, and each command is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer

from framehold_cli.commands import app
from tests.helm.runbook import PAGE

LABELS = ("Users", "It means", "Do")
BEYOND = {
    "Rotating keys",
    "A leaked admin token",
    "A full store",
    "A stuck call",
    "Out of descriptors",
    "A lost node",
    "A store fails over",
    "A store that does not save",
    "A store that was emptied or restored",
    "A node that won't drain",
    "Replies that a test does not give",
}
_LOOK = re.compile(r"`(?:api|curl|framehold|py-spy|redis-cli) |\bdashboard\b|\blogs?\b")
"""What shows whoever is woken more than the alert did: a command, a dashboard or a log."""
_COMMAND = re.compile(r"(?:^|`)framehold ((?!:)[a-z][^`\n#|]*)", re.MULTILINE)


def sections() -> dict[str, str]:
    """What stands under each heading of the second depth."""
    parts = re.split(r"(?m)^## (.*)$", PAGE.read_text())[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def commands() -> Iterator[str]:
    """All commands of ours that the page names, with what follows `framehold`."""
    yield from (found.strip() for found in _COMMAND.findall(PAGE.read_text()))


@cache
def program() -> Any:
    """`framehold` with all its commands. Making it takes a third of a second."""
    return typer.main.get_command(app)


def wrong(command: str) -> str:
    """What is wrong with a command line; empty where nothing is."""
    found = program()
    words = command.split()
    while words and (below := getattr(found, "commands", None)) is not None:
        name = words.pop(0)
        if name not in below:
            return f"no command {name}"
        found = below[name]
    known = {flag for one in found.params for flag in (*one.opts, *one.secondary_opts)}
    return ", ".join(f"no option {word}" for word in words if word.startswith("-") and word not in known)


def test_every_section_begins_with_whether_users_are_harmed() -> None:
    for title, text in sections().items():
        assert re.match(r"\*\*Users:\*\* (not harmed|harmed|wait)\b", text.strip()), title


@pytest.mark.parametrize("title", [title for title in sections() if title not in BEYOND])
def test_a_section_of_an_alert_says_all_that_is_needed_in_order(title: str) -> None:
    text = sections()[title]
    assert re.findall(r"(?m)^\*\*([\w ]+):\*\*", text) == list(LABELS)
    assert re.search(r"(?m)^1\. ", text), "steps to take"
    assert _LOOK.search(text), "something to look at"


def test_what_holds_for_every_alert_is_said_before_the_first() -> None:
    head = PAGE.read_text().partition("\n## ")[0]
    assert re.search(r"\bAn alert is over when\b", head)
    assert re.search(r"(?m)^- Always safe: ", head) and re.search(r"(?m)^- Never safe: ", head)


def test_what_comes_without_an_alert_is_there() -> None:
    assert {title for title in sections() if not title.startswith("Framehold")} == BEYOND


def test_every_command_is_there() -> None:
    found = list(commands())
    assert {line.split()[0] for line in found} >= {"status", "nodes", "leases", "lease", "drain", "cancel", "evict"}
    assert {line: text for line in found if (text := wrong(line))} == {}


def test_a_command_that_is_not_there_is_noticed() -> None:
    assert wrong("mend --now") == "no command mend"
    assert wrong("leases --lost --limit 1") == "no option --lost"
    assert wrong("keys new") == wrong("leases --state stuck") == ""
