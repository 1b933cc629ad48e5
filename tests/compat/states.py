"""Tokens as clients have them, sealed, and what they claim; and those of sagas."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from mcp.server.request_state import AESGCMRequestStateCodec

from framehold.engine import token_claims
from framehold.engine.replies import Parked
from framehold.sdk.state_codec import PrefixCodec
from framehold.wires import saga_token
from framehold.wires.saga_token import Saga
from framehold_core.clock import Clock
from framehold_core.effects import Questions
from framehold_core.ids import CallId
from tests.compat.dumps import KEY
from tests.compat.forms import BOOT, CALL, Form, Meaning, sealer

_codec = PrefixCodec(AESGCMRequestStateCodec([KEY]), Clock(lambda: 1.0, lambda: 1.0, bytes))


def _write_token(means: Meaning) -> str:
    state = _STATES[means["tag"]](means["claims"])
    return _codec.seal(json.dumps({**means["envelope"], "s": state}).encode())


def _write_held(claims: Meaning) -> str:
    at = Questions(claims["round"], claims["epoch"], claims["n"], claims["mark"])
    parked = Parked({}, CallId(claims["call"]), at, lifetime=claims.get("lifetime", 0.0), head=claims["head"])
    return token_claims.mint(parked, claims["node"], claims["boot"])


def _write_carried(claims: Meaning) -> str:
    entries = tuple(item.encode("ascii") for item in claims["entries"])
    return token_claims.carry(token_claims.Carried(**{**claims, "entries": entries}))


def _write_beside(claims: Meaning) -> str:
    entries = tuple(item.encode("ascii") for item in claims["entries"])
    return token_claims.beside(token_claims.SealedState(CallId(claims["call"]), claims["state"], entries))


_STATES: dict[str, Callable[[Meaning], str]] = {
    token_claims.OURS: _write_held,
    token_claims.REPLAY: _write_carried,
    token_claims.MARKED: _write_beside,
    token_claims.AUTHORS: lambda claims: token_claims.AUTHORS + str(claims["state"]),
}


def _read_token(text: str) -> Meaning:
    envelope = json.loads(_codec.unseal(text))
    state = envelope.pop("s")
    found: Any
    if state.startswith(token_claims.OURS):
        found = token_claims.read(state)
    else:
        found = token_claims.carried(state) if state.startswith(token_claims.REPLAY) else token_claims.marked(state)
    claims = found._asdict()
    if state.startswith(token_claims.OURS) and (lifetime := token_claims.lifetime(state)) is not None:
        claims["lifetime"] = lifetime
    if "entries" in claims:
        claims["entries"] = [item.decode("ascii") for item in claims["entries"]]
    return {"tag": state[0], "claims": claims, "envelope": envelope}


_ENVELOPE = {"v": 1, "iat": 1.0, "exp": 601.0, "m": "tools/call", "t": "book", "a": "x", "aud": "compat"}
_CLAIMS = {
    "call": CALL,
    "round": 2,
    "epoch": 3,
    "n": 7,
    "mark": "0" * 32,
    "node": "node-1",
    "boot": BOOT,
    "head": "5ea1" * 10,
}
_SEED = "AXNlZWQ="
_CARRIED = {"call": CALL, "round": 1, "epoch": 1, "code": "c0de", "seed": _SEED, "instant": 1.5, "lifetime": 0.0}
_LINES = ['[1,0,"ask","q",1,"main","fp","none",""]']
_TOKENS: tuple[Meaning, ...] = (
    {"tag": "F", "claims": _CLAIMS, "envelope": _ENVELOPE},
    {"tag": "F", "claims": {**_CLAIMS, "lifetime": 60.0}, "envelope": {**_ENVELOPE, "exp": 61.0}},
    {"tag": "R", "claims": {**_CARRIED, "entries": _LINES}, "envelope": _ENVELOPE},
    {"tag": "R", "claims": {**_CARRIED, "lifetime": 60.0, "entries": []}, "envelope": {**_ENVELOPE, "exp": 61.0}},
    {"tag": "M", "claims": {"call": CALL, "state": "mine", "entries": _LINES}, "envelope": _ENVELOPE},
    {"tag": "M", "claims": {"call": CALL, "state": None, "entries": _LINES}, "envelope": _ENVELOPE},
    {"tag": "A", "claims": {"call": "", "state": "mine, \u00fc", "entries": []}, "envelope": _ENVELOPE},
)
TOKENS = Form(_write_token, _read_token, _TOKENS)


def _read_saga(text: str) -> Meaning:
    found = saga_token.opened(text, sealer)
    assert found is not None, "a version that this release knows"
    return found._asdict()


_SAGA = {"name": "book", "arguments": {"restaurant": "Luna"}, "chosen": None, "given": {}, "state": None}
_SAGAS: tuple[Meaning, ...] = (
    {**_SAGA, "state": f"h1.{CALL}.sealed"},
    {**_SAGA, "given": {"seat": 2}, "state": "s1.sealed"},
    {**_SAGA, "chosen": {"version": "2.0"}},
)
SAGAS = Form(lambda means: saga_token.sealed(Saga(**means), sealer), _read_saga, _SAGAS)
