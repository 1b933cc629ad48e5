"""What may be asked of a client: each kind's wire form, the capability that it needs, and how its answers are read.

An answer is parsed with the result type of its own ask, since the wire's union would take a roots answer for an
elicitation. What an elicitation's content means is the handler's to validate, as on every other revision.

A saga's client may say what it met instead of an answer. That is recorded like one, as `{"error": {...}}`, and raised
where the answer is awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import mcp_types as types
from mcp.server.validation import wants_sampling_tools
from mcp.shared.exceptions import MCPError
from mcp_types import methods
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from framehold_core import journal

from .asks import Question
from .rebuild import SHOWN

KINDS = {"elicitation/create": "elicit", "sampling/createMessage": "sample", "roots/list": "roots"}
"""The requests that an `InputRequiredResult` may carry, by method."""


def question(request: types.ServerRequest, result_type: type[BaseModel]) -> Question | None:
    """The question that `request` asks; None where a client can't be asked it on this revision (a ping)."""
    if request.method not in KINDS:
        return None
    data = to_json(request.model_dump(by_alias=True, mode="json", exclude_none=True))
    return _shaped(data, result_type) if len(data) <= _LONG else _shape(data, result_type)


_LONG = 4096
"""Bytes beyond which a question is shaped each time: its text may be a user's, and what is kept stays."""


def _shape(request: bytes, result_type: type[BaseModel]) -> Question:
    """A question as the client gets it, and the digest of all of it, whatever the order of its fields.

    The same few questions are asked again and again: each is shaped once, and all who ask it share it. The SDK's
    surface drops fields that this revision doesn't know; the digest is of what was asked.
    """
    raw = from_json(request)
    asking = {"resultType": "input_required", "inputRequests": {"q": raw}, "requestState": "s"}
    try:
        shaped = methods.serialize_server_result("tools/call", LATEST_MODERN_VERSION, asking)
    except ValidationError:
        raise MCPError(
            types.INTERNAL_ERROR, f"{raw['method']}: the question is not one that this revision knows; it was not asked"
        ) from None
    wire, digest = shaped["inputRequests"]["q"], journal.digest(journal.canonical(raw))
    text = str(raw.get("params", {}).get("message", raw["method"]))[:SHOWN]
    return Question(KINDS[raw["method"]], wire, digest, reader(result_type), text, heard)


_shaped = lru_cache(maxsize=1024)(_shape)


class Failure(dict[str, Any]):
    """A raw answer that says what its client met instead: `{"error": {"code": int, "message": str, "data": ...}}`."""


_FAILED = {"error"}


class Params(dict[str, Any]):
    """A round's parameters. `failed` holds what its client met instead of answers, which a host would take for
    malformed ones."""

    failed: Mapping[str, Failure] = {}


def parted(params: Mapping[str, Any]) -> Params:
    """The parameters with failures beside the answers, no longer among them."""
    raw = params.get("inputResponses") or {}
    found = Params(params, inputResponses={key: item for key, item in raw.items() if not isinstance(item, Failure)})
    found.failed = {key: item for key, item in raw.items() if isinstance(item, Failure)}
    return found


def received(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Raw answers as a request brought them. What only looks like a failure is none: a client of `tools/call` has no
    words for one, so nothing that it sends is raised into a handler."""
    raw = (params or {}).get("inputResponses")
    answers = raw.items() if isinstance(raw, Mapping) else ()
    known = {key: None if isinstance(item, dict) and item.keys() == _FAILED else item for key, item in answers}
    return {**known, **getattr(params, "failed", {})}


def heard(answer: Any) -> Any:
    """What a question's answer was read as, or raise what its client met instead."""
    if isinstance(answer, types.ErrorData):
        raise MCPError.from_error_data(answer)
    return answer


@lru_cache(maxsize=64)
def reader(result_type: type[BaseModel]) -> Callable[[Any], Any]:
    """Parses a raw answer, or a failure, or says in one line why it is neither."""

    def parse(raw: Any) -> Any:
        try:
            if isinstance(raw, dict) and raw.keys() == _FAILED:
                return types.ErrorData.model_validate(raw["error"], by_name=False)
            return result_type.model_validate(raw, by_name=False)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"]) or "it"
            raise ValueError(f"{place}: {first['msg']}") from None

    return parse


def missing(asked: Question, has: types.ClientCapabilities | None) -> MCPError | None:
    """The protocol's error for a client that never said it can answer `asked`; None if it did.

    A bare `elicitation: {}` counts as form support, as it did before there were modes.
    """
    needed = _needed(asked, has or types.ClientCapabilities())
    if needed is None:
        return None
    data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=needed)
    return MCPError(
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"this client did not declare the capability that {asked.wire['method']} needs; it was not asked",
        data.model_dump(by_alias=True, mode="json", exclude_none=True),
    )


def _needed(asked: Question, has: types.ClientCapabilities) -> types.ClientCapabilities | None:
    params = asked.wire.get("params", {})
    if asked.kind == "roots":
        return None if has.roots is not None else types.ClientCapabilities(roots=types.RootsCapability())
    if asked.kind == "sample":
        tools = wants_sampling_tools(params.get("tools"), params.get("toolChoice"))
        if has.sampling is not None and (not tools or has.sampling.tools is not None):
            return None
        wanted = types.SamplingCapability(tools=types.SamplingToolsCapability() if tools else None)
        return types.ClientCapabilities(sampling=wanted)
    modes = has.elicitation
    if params.get("mode") == "url":
        url = types.ElicitationCapability(url=types.UrlElicitationCapability())
        return None if modes is not None and modes.url is not None else types.ClientCapabilities(elicitation=url)
    if modes is not None and (modes.form is not None or modes.url is None):
        return None
    return types.ClientCapabilities(elicitation=types.ElicitationCapability(form=types.FormElicitationCapability()))
