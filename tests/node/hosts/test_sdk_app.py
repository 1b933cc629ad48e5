"""The SDK's app of a server: which hosts and origins it accepts."""

from __future__ import annotations

from typing import Any

import pytest

from framehold.config import Settings
from framehold.hosts.sdk_app import local_only, sdk_app
from tests.node.stage import server_of


async def one() -> str:
    return "one"


@pytest.mark.parametrize(
    ("given", "hosts", "origins"),
    [
        ({}, local_only().allowed_hosts, local_only().allowed_origins),
        ({"allowed_hosts": ("a.example",)}, ["a.example"], []),
        ({"allowed_origins": ("https://b.example",)}, local_only().allowed_hosts, ["https://b.example"]),
        (
            {"allowed_hosts": ("a.example",), "allowed_origins": ("https://b.example",)},
            ["a.example"],
            ["https://b.example"],
        ),
    ],
    ids=["neither", "hosts alone", "origins alone", "both"],
)
def test_each_setting_counts(given: dict[str, Any], hosts: list[str], origins: list[str]) -> None:
    """Also without the other one: hosts that no setting names are local ones."""
    _, security = sdk_app(server_of("named", one), Settings(**given), "/mcp")
    assert (security.allowed_hosts, security.allowed_origins) == (hosts, origins)
    assert security.enable_dns_rebinding_protection
