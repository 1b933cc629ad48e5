"""A round's answers, read for the author of a handler that returns its questions.

What a client sends is not to be trusted: its kind may be another than was asked for, and what a form holds is the
handler's to check. So one reader validates, and the other tells what came.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from mcp_types import (
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitResult,
    ListRootsResult,
    Root,
)
from pydantic import BaseModel, ValidationError

from . import contexts
from .contexts import Answers
from .witness import misused

ModelT = TypeVar("ModelT", bound=BaseModel)
Field = str | int | float | bool | list[str] | None
"""What a field of a form may hold."""


@dataclass(frozen=True, slots=True)
class Missing:
    """No answer came under the key: it was not asked yet, or the client left it out."""

    kind: Literal["missing"] = "missing"


@dataclass(frozen=True, slots=True)
class Elicited:
    """What the user did with a form or a page. `content` is as it came: not validated, None unless it was accepted."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Field] | None
    kind: Literal["elicit"] = "elicit"


@dataclass(frozen=True, slots=True)
class Sampled:
    """What the client's model said."""

    result: CreateMessageResult | CreateMessageResultWithTools
    kind: Literal["sampling"] = "sampling"


@dataclass(frozen=True, slots=True)
class Rooted:
    """The client's folders."""

    roots: list[Root]
    kind: Literal["roots"] = "roots"


View = Missing | Elicited | Sampled | Rooted


def accepted_content(source: object, key: str, model: type[ModelT]) -> ModelT | None:
    """What the user filled in, validated: `accepted_content(ctx, "units", Units)`.

    Args:
        source: the handler's context (of an MCPServer, a low-level server, FastMCP), or the mapping of responses.
        key: the one that the question was asked under.
        model: a pydantic model of primitive fields.

    Returns:
        None if there is no answer under `key`, it was declined or cancelled, it is of another kind or has no content,
        or its content does not match. `input_response` tells these apart.

    Raises:
        NotInCall: `source` is a context outside a request.
        TypeError: `source` is neither, or `model` is no model.
    """
    given: object = model
    if not isinstance(given, type) or not issubclass(given, BaseModel):
        raise misused(
            TypeError(
                f"framehold.accepted_content({key!r}): its third argument must be a pydantic model, a class, not "
                f"{model!r:.80}; nothing was read"
            )
        )
    found = input_response(source, key)
    if found.kind != "elicit" or found.action != "accept" or found.content is None:
        return None
    try:
        return model.model_validate(found.content)
    except ValidationError:
        return None


def input_response(source: object, key: str) -> View:
    """What came under `key`, by its `kind`: "missing", "elicit" (`action`, `content`), "sampling" (`result`) or "roots"
    (`roots`). Arguments and errors as for `accepted_content`."""
    answer = _answers(source).get(key)
    if answer is None:
        return Missing()
    if isinstance(answer, ElicitResult):
        return Elicited(answer.action, answer.content if answer.action == "accept" else None)
    if isinstance(answer, ListRootsResult):
        return Rooted(answer.roots)
    if isinstance(answer, CreateMessageResult | CreateMessageResultWithTools):
        return Sampled(answer)
    raise TypeError(
        f"the response to {key!r} is {type(answer).__name__}, not one of the SDK's results; nothing was read; give "
        "ctx, or the responses as the SDK parsed them"
    )


class _Given(NamedTuple):
    ctx: object
    answers: Answers


_given: ContextVar[_Given | None] = ContextVar("framehold_answers", default=None)


@contextmanager
def answering(ctx: object, answers: Answers) -> Iterator[None]:
    """While it lasts, these are the answers of `ctx`: a step of a ToolBuilder reads its own, not its request's."""
    token = _given.set(_Given(ctx, answers))
    try:
        yield
    finally:
        _given.reset(token)


def _answers(source: object) -> Answers:
    given = _given.get()
    if given is not None and given.ctx is source:
        return given.answers
    return contexts.answers(source, "a reader of responses")
