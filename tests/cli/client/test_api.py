"""The client of a router's API: its address, its token, and the messages for its failures."""

from __future__ import annotations

import socket

import pytest

from framehold.cli.client import local_fleets
from framehold.cli.client.api import Api
from framehold.cli.client.local_fleets import LocalFleet
from framehold_core.errors import ConfigError
from tests.cli.fake_router import NODE, FakeRouter, Operator, fake_router

TOKEN = "0123456789abcdef"
PORT = 8080


def shown(router: FakeRouter) -> str | None:
    return router.asked[-1].headers.get("authorization")


def test_a_token_is_given_by_hand_by_the_environment_or_by_the_fleet_beside(
    operator: Operator, router: FakeRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option comes before the environment, and the environment before the file of a local fleet."""
    operator("nodes")
    assert shown(router) is None
    local_fleets.keep(LocalFleet(port=int(router.url.rpartition(":")[2]), admin_token="k" * 16))
    operator("nodes")
    assert shown(router) == f"Bearer {'k' * 16}"
    monkeypatch.setenv("FRAMEHOLD_ADMIN_TOKEN", "e" * 16)
    operator("nodes")
    assert shown(router) == f"Bearer {'e' * 16}"
    operator("nodes", "--token", TOKEN)
    assert shown(router) == f"Bearer {TOKEN}"


def test_a_kept_token_is_for_its_own_port_on_this_machine(operator: Operator) -> None:
    local_fleets.keep(LocalFleet(port=PORT, admin_token=TOKEN))
    for url, found in {
        f"http://127.0.0.1:{PORT}": True,
        f"localhost:{PORT}/mcp": True,
        f"http://127.0.0.1:{PORT + 1}": False,
        f"http://router.example:{PORT}": False,
    }.items():
        with Api(url) as api:
            assert api.has_token is found, url


def test_a_refused_token_is_told_and_not_shown(operator: Operator, router: FakeRouter) -> None:
    """One line says what to do. The exit code is 2."""
    router.refuse("nodes", 401, "no")
    result = operator("nodes")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        f"framehold: 401: {router.url} wants the admin token; give --token or FRAMEHOLD_ADMIN_TOKEN\n"
    )
    result = operator("nodes", "--token", TOKEN)
    assert "refuses this admin token" in result.err and TOKEN not in result.err
    router.refuse("POST nodes/n1/drain", 401, "no")
    router.say("nodes", {"nodes": [NODE]})
    assert "wants the admin token; nothing was done; give --token" in operator("drain", "n1").err


def test_a_token_that_can_not_be_sent_is_not_shown(operator: Operator) -> None:
    result = operator("nodes", "--token", "hunter2\n hunter2")
    assert (
        result.code == 2 and result.err.startswith("framehold: --token needs a value") and "hunter2" not in result.err
    )


def test_a_token_is_not_carried_elsewhere(operator: Operator, router: FakeRouter) -> None:
    """The client follows no redirect, so that the token stays with its server."""
    with fake_router() as other:
        router.say("nodes", f"{other.url}/api/v1/nodes".encode(), status=307)
        result = operator("nodes", "--token", TOKEN)
        assert result.code == 2 and "answers 307: no router of this release" in result.err
        assert other.asked == []


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (404, b"no", "answers 404: no router of this release; name another --port or --url"),
        (404, {"error": "/api/v1/nodes is not served here"}, "404: /api/v1/nodes is not served here"),
        (503, {"error": "the store is away\x1b[2J"}, "503: the store is away\\x1b[2J"),
        (200, b"<html>", "is no router's of this release: its answer can't be read; name another --port or --url"),
        (200, [], "its answer can't be read"),
        (200, {"nodes": 1}, "its answer can't be read"),
        (200, {"nodes": [{"node_id": 1}]}, "its answer can't be read"),
    ],
)
def test_something_else_there(status: int, body: object, says: str, operator: Operator, router: FakeRouter) -> None:
    router.say("nodes", body, status=status)
    result = operator("nodes")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert says in result.err and "\x1b" not in result.err


@pytest.mark.parametrize("url", ["nonsense:x", "http://[x", "ftp://127.0.0.1", "http://", "http://x:0"])
def test_no_address(url: str, operator: Operator, router: FakeRouter) -> None:
    """One line shows a valid address."""
    router.url = url
    assert "is no address; name one as --url http://127.0.0.1:8080\n" in operator("ring", "-o", "json").err
    assert operator("doctor").code == 1


def test_an_address_with_a_password_is_refused_and_not_shown(operator: Operator, router: FakeRouter) -> None:
    """A password in an address would be in the history of the shell and in error messages."""
    router.url = router.url.replace("://", "://any:hunter2@")
    result = operator("nodes")
    assert result.code == 2 and "must not hold a user or a password" in result.err and "hunter2" not in result.err
    result = operator("doctor")
    assert result.code == 1 and "must not hold a user or a password" in result.out
    assert "hunter2" not in result.out + result.err and router.asked == []


def test_nobody_there(operator: Operator, router: FakeRouter) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        router.url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        result = operator("status")
    assert result.code == 3 and result.err.startswith(f"framehold: no router answers at {router.url} (")
    assert result.err.endswith("; start a fleet with framehold up, or name another --port or --url\n")


def test_a_name_is_one_part_of_a_path(router: FakeRouter) -> None:
    """The name of a node is escaped, so that no name leads to another path."""
    with Api(router.url) as api, pytest.raises(ConfigError):
        api.act("nodes", "../leases/x?y#z", "drain")
    assert router.asked[-1].path == "/api/v1/nodes/..%2Fleases%2Fx%3Fy%23z/drain"
