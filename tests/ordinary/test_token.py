"""A token opened in one step is what the SDK's boundary and the codec before it open in several, and nothing else is.

Two rules differ on purpose between the SDK by itself and Framehold's boundary, and both ways here have them: arguments
are equal that are equal in JSON (`sdk/boundary.py`), and times are judged on the store's clock (`sdk/state_codec.py`).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import AESGCMRequestStateCodec, RequestStateSecurity, _principal_claim
from mcp.shared.exceptions import MCPError

from framehold.engine import token_claims
from framehold.engine.replies import Parked
from framehold.engine.token_claims import Claims
from framehold.sdk.boundary import Boundary
from framehold.sdk.state_codec import PrefixCodec
from framehold.sdk.token import METHOD, Target, Tokens, arguments_digest, signed_in, tokens_of
from framehold_core import effects, token
from framehold_core.clock import Clock
from framehold_core.ids import CallId
from framehold_store.system_clock import system_clock

CALL, TOOL, AUDIENCE = CallId("c" * 32), "weather", "a server"
ARGUMENTS: dict[str, Any] = {"location": "Oslo", "n": 1}
PARKED = Parked({}, CALL, effects.Questions(2, 3, 4, "mark"), "", 0.0, "seal")


@contextmanager
def signed(user: str | None, issuer: str | None = None) -> Iterator[str | None]:
    """Within it this user is signed in, as the value is named in tokens; None: nobody is."""
    shown = None
    if user is not None:
        claims = None if issuer is None else {"iss": issuer}
        shown = AuthenticatedUser(AccessToken(token="t", client_id=user, scopes=[], claims=claims))
    before = auth_context_var.set(shown)
    try:
        yield signed_in()
    finally:
        auth_context_var.reset(before)


class Made:
    """A boundary, as `attach` makes one, and both ways to its tokens."""

    def __init__(self) -> None:
        self.clock: Clock = system_clock()
        self.codec = AESGCMRequestStateCodec(["k" * 32])
        self.security = RequestStateSecurity(codec=PrefixCodec(self.codec, self.clock))
        self.boundary = Boundary(self.security, default_audience=AUDIENCE)
        found = tokens_of(self.boundary)
        assert isinstance(found, Tokens)
        self.tokens = found

    def by_the_boundary(self, wire: str, tool: str, arguments: Any) -> Claims | None:
        """The claims that a handler's seam gets; None if the boundary or the seam refuses the token."""
        seen: list[str] = []

        async def handler(ctx: Any) -> dict[str, Any]:
            seen.append(ctx.params["requestState"])
            return {}

        params = {"name": tool, "arguments": arguments, "requestState": wire}
        try:
            asyncio.run(self.boundary(_context(params), handler))
        except MCPError:
            return None
        return token_claims.read(seen[0]) if seen[0].startswith(token_claims.OURS) else None

    def at_once(self, wire: str, tool: str, arguments: Any) -> Claims | None:
        call, sealed = token.halves(wire)
        return self.tokens.open(
            CallId(call), sealed, Target(METHOD, tool, tool), arguments_digest(arguments), signed_in()
        )


def _context(params: dict[str, Any]) -> Any:
    nothing: Any = SimpleNamespace()
    return ServerRequestContext(
        session=nothing, lifespan_context=None, protocol_version="2026-07-28", method=METHOD, params=params
    )


MADE = Made()


def envelope(**changed: Any) -> dict[str, Any]:
    """The claims of a right token, but for these; a claim of value `...` is left out."""
    now = MADE.clock.time()
    right = {"v": 1, "iat": now, "exp": now + 60, "m": METHOD, "t": TOOL, "a": arguments_digest(ARGUMENTS)}
    right |= {"s": token_claims.mint(PARKED, "node", "boot"), "aud": AUDIENCE}
    return {name: value for name, value in {**right, **changed}.items() if value is not ...}


def sealed(claims: Any, call: str = CALL) -> str:
    data = claims if isinstance(claims, str) else json.dumps(claims)
    return f"h1.{call}.{MADE.codec.seal(data.encode())}"


VALUES = st.one_of(
    *(st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.text(max_size=5), st.just(...)),
    *(st.lists(st.integers(), max_size=2), st.just({}), st.just(METHOD), st.just(TOOL), st.just(AUDIENCE)),
)
ITEMS = st.one_of(st.integers(-1, 3), st.text(max_size=3), st.sampled_from([CALL, "hold"]), st.booleans(), st.none())
STATES = st.one_of(
    *(st.text(max_size=9), st.sampled_from(["F", "F[]", "F[1]", "Rx", "Mx", "Ax"])),
    st.lists(ITEMS, min_size=8, max_size=12).map(lambda items: f"F{json.dumps(items)}"),
    st.tuples(st.integers(0, 10), st.one_of(ITEMS, st.floats())).map(lambda change: _state(*change)),
)


def _state(place: int, value: Any) -> str:
    items = json.loads(token_claims.mint(PARKED, "node", "boot")[1:])
    items[place : place + 1] = [value]
    return f"F{json.dumps(items)}"


@settings(max_examples=600, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["v", "iat", "exp", "m", "t", "a", "aud", "p", "more"]), VALUES, max_size=2),
    st.one_of(st.none(), STATES),
)
def test_both_ways_open_the_same_tokens(changed: dict[str, Any], state: str | None) -> None:
    logging.disable(logging.CRITICAL)
    wire = sealed(envelope(**changed, **({} if state is None else {"s": state})))
    try:
        found = MADE.at_once(wire, TOOL, ARGUMENTS)
        # What the short way leaves to the boundary, that may still take: a claim in a form that nobody writes.
        assert found is None or found == MADE.by_the_boundary(wire, TOOL, ARGUMENTS)
    finally:
        logging.disable(logging.NOTSET)


def of(user: str | None, parked: Parked = PARKED) -> str:
    return MADE.tokens.seal(parked, "node", "boot", Target(METHOD, TOOL, TOOL), arguments_digest(ARGUMENTS), user)


USERS = [(None, None), ("somebody", None), ("somebody", "https://issuer"), ("\ud800", None)]


@pytest.mark.parametrize(("user", "issuer"), USERS)
def test_a_right_token_is_opened_by_both(user: str | None, issuer: str | None) -> None:
    claims = token_claims.read(token_claims.mint(PARKED, "node", "boot"))
    with signed(user, issuer) as named:
        for wire in (sealed(envelope(p=... if named is None else _principal_claim(named))), of(named)):
            assert MADE.at_once(wire, TOOL, ARGUMENTS) == MADE.by_the_boundary(wire, TOOL, ARGUMENTS) == claims


@pytest.mark.parametrize(("user", "issuer"), USERS)
def test_both_seal_the_same_claims(user: str | None, issuer: str | None) -> None:
    """But for the moment at which they do it, and the salt of a user's claim."""
    state = token_claims.mint(PARKED, "node", "boot")
    with signed(user, issuer) as named:
        wire = of(named)
        theirs = MADE.boundary._seal(_context({"name": TOOL, "arguments": ARGUMENTS}), state)
    ours, other = (json.loads(MADE.codec.unseal(text.split(".", 2)[2])) for text in (wire, theirs))
    assert ours.keys() == other.keys() and ("p" in ours) is (user is not None)
    for name in ("iat", "exp"):
        assert ours.pop(name) == pytest.approx(other.pop(name), abs=5.0)
    assert len(ours.pop("p", "")) == len(other.pop("p", ""))
    assert ours == other


@pytest.mark.parametrize("lifetime", [0.0, 30.0])
def test_a_lifetime_of_the_handler_ends_the_token(lifetime: float) -> None:
    parked = PARKED._replace(lifetime=lifetime)
    wire = of(None, parked)
    claims = json.loads(MADE.codec.unseal(wire.split(".", 2)[2]))
    assert claims["exp"] - claims["iat"] == pytest.approx(lifetime or MADE.security.ttl)


def _other_state(tag: str = token_claims.OURS, call: str = CALL) -> str:
    return tag + token_claims.mint(PARKED._replace(call=CallId(call)), "node", "boot")[1:]


class Wrong(NamedTuple):
    """The claims that are wrong in a token, and who is signed in."""

    claims: dict[str, Any]
    by: str | None = None

    def taken(self, opens: Any) -> bool:
        with signed(self.by):
            return opens(sealed(envelope(**self.claims)), TOOL, ARGUMENTS) is not None


with signed("somebody") as SOMEBODY:
    CLAIM = _principal_claim(SOMEBODY or "")
WRONG = {
    "of another format": Wrong({"v": 2}),
    "expired": Wrong({"exp": 0.0}),
    "of another method": Wrong({"m": "prompts/get"}),
    "of another tool": Wrong({"t": "other"}),
    "of other arguments": Wrong({"a": arguments_digest({"location": "Bern"})}),
    "of another server": Wrong({"aud": "another server"}),
    "of no server": Wrong({"aud": ...}),
    "of a user": Wrong({"p": CLAIM}),
    "of nobody": Wrong({}, "somebody"),
    "of another user": Wrong({"p": CLAIM}, "another"),
    "of a user who is no text": Wrong({"p": 1}, "somebody"),
    "an author's state": Wrong({"s": _other_state("A")}),
    "of another call": Wrong({"s": _other_state(call="d" * 32)}),
}


def wrongly_taken() -> list[str]:
    return [why for why, wrong in WRONG.items() if wrong.taken(MADE.at_once)]


@pytest.mark.parametrize("why", WRONG)
def test_a_wrong_claim_is_left_to_the_boundary_which_refuses_it(why: str) -> None:
    assert not WRONG[why].taken(MADE.at_once)
    assert not WRONG[why].taken(MADE.by_the_boundary)


@pytest.mark.parametrize(("one", "other"), [({"n": 1}, {"n": 1.0}), ({"n": 100}, {"n": 1e2}), (None, {})])
def test_arguments_that_are_equal_in_json_have_one_digest(one: Any, other: Any) -> None:
    assert arguments_digest(one) == arguments_digest(other)
