"""Which servers share a namespace, by their leases."""

from __future__ import annotations

import logging

import pytest

from framehold_fleet.members.membership import STRANGE, Member
from framehold_router.collect.identities import STEADY, Identities
from tests.router.cast import member


class Seen:
    """What a router has seen at the times that a test chooses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.found = Identities(lambda: self.now)

    def look(self, *nodes: tuple[str, str | None, str | None], passed: float = 1.0, state: str = "live") -> None:
        """Look at nodes, each with the name of its server and the digest of its tools."""
        self.now += passed
        self.found.look(_member(*node, state) for node in nodes)


def _member(name: str, server: str | None, tools: str | None, state: str) -> Member:
    found = member(name, f"http://{name}:1")
    return found._replace(state=state, stats=found.stats._replace(server=server, tools_digest=tools))


def test_two_servers_are_one_line_until_they_change(caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()
    with caplog.at_level(logging.WARNING, "framehold_router.collect.identities"):
        seen.look(("a", "shop", "1"), ("b", "shop", "1"))
        assert not caplog.records and seen.found.servers == ("shop",)
        for _ in range(3):
            seen.look(("a", "shop", "1"), ("b", "bank", "2"), ("c", None, None))
        seen.look(("a", "shop", "1"))
        seen.look(("a", "shop", "1"), ("b", "bank", "2"))
    first, again = (record.getMessage() for record in caplog.records)
    assert "2 servers share one namespace of the store (bank: b; shop: a)" in first == again
    assert "FRAMEHOLD_NAMESPACE" in first


def test_nodes_of_another_fleet_are_no_second_server() -> None:
    seen = Seen()
    seen.look(("a", "shop", "1"), state=STRANGE)
    assert seen.found.servers == ()


def test_lists_of_tools_are_steady_while_no_node_comes_or_goes() -> None:
    """A rolling update replaces nodes one after the other."""
    seen = Seen()
    seen.look(("a", "shop", "1"), ("b", "shop", "1"))
    seen.look(("a", "shop", "1"), ("b", "shop", "2"), passed=STEADY)
    assert not seen.found.are_steady
    seen.look(("a", "shop", "2"), ("b", "shop", "2"), passed=STEADY - 1)
    assert not seen.found.are_steady
    seen.look(("a", "shop", "2"), ("b", "shop", "2"), passed=STEADY)
    assert seen.found.are_steady
