"""The client of a router's API: its address, its token, and the messages for its failures."""

from __future__ import annotations

import socket

import pytest

from framehold_cli.client import local_fleets
from framehold_cli.client.api import ApiClient, NoRouter, Unproved
from framehold_cli.client.local_fleets import LocalFleet
from framehold_core.errors import ConfigError
from framehold_fleet.models.nodes import NodesView
from framehold_router.api.signature import Signatures
from tests.cli.fake_router import CALL, NODE, TOKEN, FakeRouter, Operator, fake_router

PORT = 8080


def shown(router: FakeRouter) -> str | None:
    """The token that the last request was signed with."""
    return router.asked[-1].token


def test_a_token_is_given_by_hand_by_the_environment_or_by_the_fleet_beside(
    operator: Operator, router: FakeRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option comes before the environment, and the environment before the file of a local fleet."""
    router.tokens = ("k" * 16, "e" * 16, TOKEN)
    operator("nodes")
    assert shown(router) is None and "authorization" not in router.asked[-1].headers
    local_fleets.keep(LocalFleet(port=int(router.url.rpartition(":")[2]), admin_token="k" * 16))
    operator("nodes")
    assert shown(router) == "k" * 16
    monkeypatch.setenv("FRAMEHOLD_ADMIN_TOKEN", "e" * 16)
    operator("nodes")
    assert shown(router) == "e" * 16
    operator("nodes", "--token", TOKEN)
    assert shown(router) == TOKEN


def test_a_kept_token_is_for_its_own_port_on_this_machine(operator: Operator) -> None:
    local_fleets.keep(LocalFleet(port=PORT, admin_token=TOKEN))
    for url, found in {
        f"http://127.0.0.1:{PORT}": True,
        f"localhost:{PORT}/mcp": True,
        f"http://127.0.0.1:{PORT + 1}": False,
        f"http://router.example:{PORT}": False,
    }.items():
        with ApiClient(url) as api:
            assert api.has_token is found, url


def test_a_refused_token_is_told_and_not_shown(operator: Operator, router: FakeRouter) -> None:
    """One line says what to do. The exit code is 2."""
    router.refuse("nodes", 401, "no")
    result = operator("nodes")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        f"framehold: 401: {router.url} wants the admin token; give --token or FRAMEHOLD_ADMIN_TOKEN\n"
    )
    result = operator("nodes", "--token", "f" * 16)
    assert f"401: {router.url} does not prove that it has this admin token" in result.err
    assert "f" * 16 not in result.err
    router.refuse("POST nodes/n1/drain", 401, "no")
    router.say("nodes", {"nodes": [NODE]})
    assert "wants the admin token; nothing was done; give --token" in operator("drain", "n1").err


def test_a_token_that_can_not_be_sent_is_not_shown(operator: Operator) -> None:
    result = operator("nodes", "--token", "hunter2\n hunter2")
    assert (
        result.code == 2 and result.err.startswith("framehold: --token needs a value") and "hunter2" not in result.err
    )


COMMANDS = (
    *(
        ("status",),
        ("nodes",),
        ("ring",),
        ("capacity",),
        ("leases",),
        ("calls",),
        ("lease", CALL),
        ("journal", CALL[:8]),
    ),
    *(("cancel", CALL, "-y"), ("evict", CALL, "-y"), ("drain", "n1"), ("pause", "book", "-y"), ("resume", "book")),
    ("call", "book", "--prove"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_who_does_not_prove_the_token_is_asked_for_nothing(
    command: tuple[str, ...], operator: Operator, router: FakeRouter
) -> None:
    """Somebody else who listens there gets neither the token nor what the user wants to know or do, and nothing that he
    says is shown. One line says what was not done."""
    router.tokens = ("f" * 16,)
    router.say("nodes", {"nodes": [{**NODE, "node_id": "a-lie"}]})
    options = ("--admin-token", TOKEN, "--api", router.url) if command[0] == "call" else ("--token", TOKEN)
    result = operator(*command, *options)
    assert result.code != 0 and router.asked == []
    assert "does not prove that it has this admin token" in result.err and "a-lie" not in result.err + result.out
    assert result.err.count("\n") == 1
    assert "the token was not sent, and nothing was asked or done; give the token of that router" in result.err


def test_the_token_is_in_no_request(operator: Operator, router: FakeRouter) -> None:
    """Not even where the router has proved that it has it."""
    assert operator("nodes", "--token", TOKEN).code == 0
    assert {one.token for one in router.asked} == {TOKEN}
    assert TOKEN not in repr([one.headers for one in router.asked])


def test_an_answer_that_is_not_proved_is_not_shown(router: FakeRouter) -> None:
    """Each one is, and not only the first: another process may have taken the port."""
    with ApiClient(router.url, TOKEN) as api:
        assert api.get("nodes", NodesView).view.nodes
        router.tokens = ()
        with pytest.raises(Unproved, match="its answer is not believed"):
            api.get("nodes", NodesView)
        router.say("nodes", b"a gateway", status=502)
        with pytest.raises(NoRouter, match="answers 502: no router of this release"):
            api.get("nodes", NodesView)


def test_the_router_may_be_below_a_path(router: FakeRouter) -> None:
    """A proxy takes the path away, and the router never gets it."""
    with ApiClient(f"{router.url}/fleet/mcp", TOKEN) as api:
        assert api.url == f"{router.url}/fleet"
        signed = api._signed(api._http.build_request("GET", f"{api.url}/api/v1/nodes", params={"a": "b/c d"}))
    assert signed is not None
    assert Signatures([TOKEN]).read("GET", "/api/v1/nodes?a=b%2Fc+d", signed.authorization) is not None


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
    with ApiClient(router.url) as api, pytest.raises(ConfigError):
        api.act("nodes", "../leases/x?y#z", "drain")
    assert router.asked[-1].path == "/api/v1/nodes/..%2Fleases%2Fx%3Fy%23z/drain"
