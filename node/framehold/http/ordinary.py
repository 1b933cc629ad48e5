"""Which requests are ordinary rounds.

1. the head is known for this target, a tool, a prompt or a resource (`heads`)
2. the body has the parameters of a first request or of a retry, and no other; its id needs no escapes
3. the `_meta` states an identity that the SDK has validated (`client_identities`)
4. the handler has a plan (`sdk/plan.py`)
5. the token of a retry is for this target, these arguments and the user who is signed in, and its call has no frame
   here, or one that waits

The law: nothing is refused here. A request that is not an ordinary round goes to the entry, with its body replayed, so
each refusal has one author.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.shared.inbound import NAME_BEARING_METHODS

from framehold_core import token
from framehold_core.call import Phase
from framehold_core.ids import CallId

from .. import json_text
from ..engine.table import CallTable
from ..engine.token_claims import Claims
from ..sdk import questions
from ..sdk.plan import GeneralPlan, Plan, PlanOf
from ..sdk.planned_call import PlannedCall
from ..sdk.token import Target, Tokens, arguments_digest, signed_in
from .client_identities import Client, ClientIdentities

_PARKED = Phase.PARKED
READ = "resources/read"
"""The one method whose target is a URI. It has no arguments."""
_ID = re.compile(rb'\d{1,15}|"[ !#-\[\]-~]{1,100}"')
"""A request id that a response repeats as it is written: digits, or a text without escapes."""


class _Params(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    meta: msgspec.Raw = msgspec.field(name="_meta")
    name: str | msgspec.UnsetType = msgspec.UNSET
    uri: str | msgspec.UnsetType = msgspec.UNSET
    arguments: msgspec.Raw = msgspec.Raw(b"")
    answers: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="inputResponses")
    state: str | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="requestState")


class _Body(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    jsonrpc: str
    id: msgspec.Raw
    method: str
    params: _Params


_read = msgspec.json.Decoder(_Body).decode


class Retried(NamedTuple):
    """What a retry brings: the claims of its token, its answers by key, and whether the frame of its call waits here;
    if not, it has none here."""

    claims: Claims
    answers: Mapping[str, Any]
    here: bool


class Ordinary(NamedTuple):
    """An ordinary round. `id` is the request's id as it is written, `meta` is its `_meta` (JSON), `given_arguments` are
    its arguments (JSON; empty if it has none), `raw` are its parameters `name` or `uri`, and `arguments`. `digest` is
    that of the arguments in a token. `user` is who is signed in, None if nobody is. `retried` is None for a first
    request."""

    id: bytes
    target: Target
    plan: Plan | GeneralPlan
    client: Client
    meta: bytes
    given_arguments: bytes
    raw: dict[str, Any]
    digest: str
    user: str | None
    retried: Retried | None


class Recognition:
    """Finds the ordinary rounds among the requests of one server."""

    def __init__(self, plan_of: PlanOf, tokens: Tokens, identities: ClientIdentities, table: CallTable) -> None:
        self._plan_of, self._tokens, self._identities, self._table = plan_of, tokens, identities, table

    def recognise(self, target: Target, data: bytes) -> Ordinary | None:
        """The ordinary round with the body `data`, whose head is known for `target`; None if it is not ordinary."""
        try:
            body = _read(data)
            params, request_id = body.params, bytes(body.id)
            name, other = (params.uri, params.name) if target.method == READ else (params.name, params.uri)
            told = body.method == target.method and body.jsonrpc == "2.0" and name == target.name
            if not told or other is not msgspec.UNSET or _ID.fullmatch(request_id) is None:
                return None
            meta = bytes(params.meta)
            plan, client = self._plan_of(target), self._identities.client(meta)
            if plan is None or client is None:
                return None
            raw: dict[str, Any] = {NAME_BEARING_METHODS[target.method]: target.name}
            given = bytes(params.arguments)
            if given:
                if target.method == READ:
                    return None
                raw["arguments"] = arguments = json_text.read(given)
                if type(arguments) is not dict:
                    return None
            digest, retried, user = "", None, None if get_access_token() is None else signed_in()
            if params.state is not msgspec.UNSET:
                digest, retried = self._retry(target, params, given, raw, user)
                if retried is None:
                    return None
            elif bytes(params.answers):
                return None
            else:
                digest = arguments_digest(raw.get("arguments"))
            return Ordinary(request_id, target, plan, client, meta, given, raw, digest, user, retried)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def _retry(
        self, target: Target, params: _Params, given: bytes, raw: dict[str, Any], user: str | None
    ) -> tuple[str, Retried | None]:
        """The digest of the arguments of a request with a token, and what the request brings; None if its token is not
        for it, or its call runs here."""
        call, sealed = token.halves(str(params.state))
        slot, answers = self._table.get(CallId(call)), json_text.read(bytes(params.answers))
        if type(answers) is not dict or questions.has_failure(answers):
            return "", None
        entered = None if slot is None or slot.frame is None else slot.handler
        if slot is not None and entered is not None and slot.call.phase is not _PARKED:
            return "", None
        # A heavy call keeps none of its arguments to compare with.
        if type(entered) is PlannedCall and entered.given_arguments == given and not entered.weight:
            digest = entered.digest
        else:
            digest = arguments_digest(raw.get("arguments"))
        claims = self._tokens.open(CallId(call), sealed, target, digest, user)
        return digest, None if claims is None else Retried(claims, answers, entered is not None)
