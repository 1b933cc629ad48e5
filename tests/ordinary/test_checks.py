"""Each check that tells an ordinary round from other requests is taken out in turn, and the comparison turns red.

Not here, since nobody can see that it is gone: that the frame of a retry is parked. Core decides on each retry by its
table, whatever the phase."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from framehold.http.heads import Heads
from framehold.http.ordinary import Recognition
from framehold.http.ordinary_rounds import OrdinaryRounds
from framehold.sdk.token import Tokens
from tests.ordinary.conversations import each_answer, each_twist
from tests.ordinary.equality import both, drained, played
from tests.ordinary.test_token import wrongly_taken
from tests.sim.edits import edited

pytestmark = pytest.mark.anyio


class Check(NamedTuple):
    """A check: the function that has it, the piece of its text, and what stands there without the check."""

    owner: type[Any]
    function: str
    old: str
    new: str


RECOGNISED = {
    "the method": Check(Recognition, "recognise", "body.method == target.method and ", ""),
    "the version of JSON-RPC": Check(Recognition, "recognise", ' and body.jsonrpc == "2.0"', ""),
    "the name in the header": Check(Recognition, "recognise", " and name == target.name", ""),
    "the request id": Check(Recognition, "recognise", "_ID.fullmatch(request_id) is None", "False"),
    "arguments that are an object": Check(Recognition, "recognise", "type(arguments) is not dict", "False"),
    "answers without a token": Check(Recognition, "recognise", "elif bytes(params.answers):", "elif False:"),
    "a failure among the answers": Check(Recognition, "_retry", " or questions.has_failure(answers)", ""),
    "an origin": Check(Heads, "learn", "name in _NEVER or ", ""),
}
CLAIMED = {
    "the format": Check(Tokens, "open", "envelope.v != 1\n", "False\n"),
    "the end": Check(Tokens, "open", "or not self._clock.time() < envelope.exp\n", "or False\n"),
    "the method": Check(Tokens, "open", "or envelope.m != target.method\n", "or False\n"),
    "the tool": Check(Tokens, "open", "or envelope.t != target.name\n", "or False\n"),
    "the arguments": Check(Tokens, "open", "or envelope.a != arguments\n", "or False\n"),
    "the server": Check(Tokens, "open", "or envelope.aud != self._audience\n", "or False\n"),
    "the user": Check(Tokens, "open", "or (envelope.p is not user and not _is_of(envelope.p, user))\n", "or False\n"),
    "the tag": Check(Tokens, "open", "or not envelope.s.startswith(token_claims.OURS)\n", "or False\n"),
    "the call": Check(Tokens, "open", " and claims.call == call", ""),
}


def _take_out(monkeypatch: pytest.MonkeyPatch, check: Check) -> None:
    function = getattr(check.owner, check.function)
    monkeypatch.setattr(check.owner, check.function, edited(function, check.old, check.new))


@pytest.mark.nightly
@pytest.mark.parametrize("name", RECOGNISED)
async def test_without_a_check_of_the_request_replies_differ(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _take_out(monkeypatch, RECOGNISED[name])
    async with both() as pair:
        found = await played(pair, each_twist(), differences=1)
        if not found.differences:
            found = await played(pair, each_answer(), differences=1)
    assert found.differences


@pytest.mark.parametrize("name", CLAIMED)
def test_without_a_check_of_the_claims_a_wrong_token_is_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not wrongly_taken()
    _take_out(monkeypatch, CLAIMED[name])
    assert wrongly_taken()


@pytest.mark.nightly
async def test_without_a_look_at_the_node_a_drain_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    _take_out(monkeypatch, Check(OrdinaryRounds, "_recognised", "not self._runtime.takes(target.label) or ", ""))
    assert (await drained(450, 3)).differences
