"""The questions that a client may be asked: the wire form of each kind, the capability that it needs, and how its
answers are read.

An answer is parsed with the result type of its own question: by the union type of the wire, a roots answer would pass
for an elicitation. The handler validates the content of an elicitation, as on every other revision.

The client of a saga may send an error instead of an answer. The error is recorded like an answer, as
`{"error": {...}}`, and is raised where the handler awaits the answer.
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

from framehold_core import journal

from .. import json_text
from ..frame.asks import Question
from ..frame.rebuild import MAX_TEXT_CHARACTERS

KINDS = {"elicitation/create": "elicit", "sampling/createMessage": "sample", "roots/list": "roots"}
"""The kind of question by method: all requests that an `InputRequiredResult` may carry."""


def question(request: types.ServerRequest, result_type: type[BaseModel]) -> Question | None:
    """The question that `request` asks; None if this revision can't ask it of a client (a ping)."""
    if request.method not in KINDS:
        return None
    data = json_text.write(request.model_dump(by_alias=True, mode="json", exclude_none=True))
    return _cached_question(data, result_type) if len(data) <= MAX_CACHED_BYTES else _question(data, result_type)


MAX_CACHED_BYTES = 4096
"""Bytes up to which a question is cached: its text may be a user's, and the cache keeps it."""


def _question(request: bytes, result_type: type[BaseModel]) -> Question:
    """The question of a request (JSON): its wire form, and a digest that does not depend on the order of its fields.

    A server asks the same few questions again and again, so questions are cached and shared. The SDK's surface drops
    fields that this revision doesn't know from the wire form. The digest is of the request with all its fields.

    Raises:
        MCPError: this revision does not know such a question; it was not asked.
    """
    raw = json_text.read(request)
    asking = {"resultType": "input_required", "inputRequests": {"q": raw}, "requestState": "s"}
    try:
        shaped = methods.serialize_server_result("tools/call", LATEST_MODERN_VERSION, asking)
    except ValidationError:
        raise MCPError(
            types.INTERNAL_ERROR, f"{raw['method']}: the question is not one that this revision knows; it was not asked"
        ) from None
    wire, digest = shaped["inputRequests"]["q"], journal.digest(journal.canonical(raw))
    text = str(raw.get("params", {}).get("message", raw["method"]))[:MAX_TEXT_CHARACTERS]
    return Question(KINDS[raw["method"]], wire, digest, reader(result_type), text, value_or_raise)


_cached_question = lru_cache(maxsize=1024)(_question)


def form(message: Any, schema: Any) -> Question:
    """The question with which a form is asked. The SDK shapes one question of each form: others of the same form have
    another message, which is not changed by it."""
    if (cached := written_form(message, json_text.write(schema))) is not None:
        return cached
    asked = question(form_request(message, schema), types.ElicitResult)
    assert asked is not None, "a form can be asked of a client"
    return asked


def written_form(message: Any, schema: bytes) -> Question | None:
    """As `form`, for a schema that is written already (JSON); None if the question is not to be cached."""
    if type(message) is not str or len(message) + len(schema) > MAX_CACHED_BYTES or not json_text.is_unicode(message):
        return None
    return _cached_form(message, schema)


@lru_cache(maxsize=1024)
def _cached_form(message: str, schema: bytes) -> Question:
    raw, like = _first_form(schema)
    digest = journal.digest(journal.canonical(_with_message(raw, message)))
    wire, text = _with_message(like.wire, message), message[:MAX_TEXT_CHARACTERS]
    return Question(like.kind, wire, digest, like.parse, text, like.result)


@lru_cache(maxsize=256)
def _first_form(schema: bytes) -> tuple[dict[str, Any], Question]:
    """A request with a form and any message, and its question."""
    request = form_request("message", json_text.read(schema))
    data = json_text.write(request.model_dump(by_alias=True, mode="json", exclude_none=True))
    return json_text.read(data), _question(data, types.ElicitResult)


def form_request(message: str, schema: Any) -> types.ElicitRequest:
    """The SDK's request that asks a user to fill in a form."""
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def _with_message(request: dict[str, Any], message: str) -> dict[str, Any]:
    return {**request, "params": {**request["params"], "message": message}}


class ClientError(dict[str, Any]):
    """A raw answer in which the client reports an error: `{"error": {"code": int, "message": str, "data": ...}}`."""


_FAILURE_KEYS = {"error"}


class Params(dict[str, Any]):
    """The parameters of a round. `failed` are the errors that the client reported instead of answers, by key. They are
    kept apart, since a host would reject them as malformed answers."""

    failed: Mapping[str, ClientError] = {}


def without_failures(params: Mapping[str, Any]) -> Params:
    """The parameters of a round without the failures among its answers, which are in `Params.failed` instead."""
    raw = params.get("inputResponses") or {}
    found = Params(params, inputResponses={key: item for key, item in raw.items() if not isinstance(item, ClientError)})
    found.failed = {key: item for key, item in raw.items() if isinstance(item, ClientError)}
    return found


def received(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """The raw answers of a request, by key. An answer that only has the form of a failure becomes None: a client of
    `tools/call` can't report failures, so nothing that it sends is raised in a handler."""
    raw = (params or {}).get("inputResponses")
    # Of a plain dict the check of an abstract class is not asked, which costs ten times as much.
    answers = raw.items() if type(raw) is dict or isinstance(raw, Mapping) else ()
    known = {key: None if isinstance(item, dict) and item.keys() == _FAILURE_KEYS else item for key, item in answers}
    return {**known, **getattr(params, "failed", {})}


def has_failure(answers: Mapping[str, Any]) -> bool:
    """Whether an answer has the form of a failure, which a client of `tools/call` can't report."""
    return any(type(item) is dict and item.keys() == _FAILURE_KEYS for item in answers.values())


def value_or_raise(answer: Any) -> Any:
    """The parsed answer to a question.

    Raises:
        MCPError: the client reported an error instead.
    """
    if isinstance(answer, types.ErrorData):
        raise MCPError.from_error_data(answer)
    return answer


@lru_cache(maxsize=64)
def reader(result_type: type[BaseModel]) -> Callable[[Any], Any]:
    """A function that parses a raw answer into `result_type`, or a failure into `ErrorData`. It raises ValueError with
    a reason of one line if the raw answer is neither."""

    def parse(raw: Any) -> Any:
        try:
            if isinstance(raw, dict) and raw.keys() == _FAILURE_KEYS:
                return types.ErrorData.model_validate(raw["error"], by_name=False)
            return result_type.model_validate(raw, by_name=False)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"]) or "it"
            raise ValueError(f"{place}: {first['msg']}") from None

    return parse


def missing(asked: Question, has: types.ClientCapabilities | None) -> MCPError | None:
    """The protocol's error for a client that did not declare that it can answer `asked`; None if it did.

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
