"""Readers of a round's answers, for handlers that return their questions.

An answer of a client can't be trusted: it may be of another kind than the question, and the handler has to check the
content of a form. So one reader validates an answer, and the other returns it as it came, with its kind.
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

from ..frame.rehearsal import misused
from . import handler_context
from .handler_context import Answers

ModelT = TypeVar("ModelT", bound=BaseModel)
Field = str | int | float | bool | list[str] | None
"""The value of a field in a form."""


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no answer under the key: the question was not asked yet, or the client left its answer out."""

    kind: Literal["missing"] = "missing"


@dataclass(frozen=True, slots=True)
class Elicited:
    """The user's answer to a form or a page. `content` is not validated; it is None unless `action` is "accept"."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Field] | None
    kind: Literal["elicit"] = "elicit"


@dataclass(frozen=True, slots=True)
class Sampled:
    """The text or other content that the client's model made."""

    result: CreateMessageResult | CreateMessageResultWithTools
    kind: Literal["sampling"] = "sampling"


@dataclass(frozen=True, slots=True)
class Roots:
    """The client's folders."""

    roots: list[Root]
    kind: Literal["roots"] = "roots"


View = Missing | Elicited | Sampled | Roots


def accepted_content(source: object, key: str, model: type[ModelT]) -> ModelT | None:
    """The validated content of a form: `accepted_content(ctx, "units", Units)`.

    Args:
        source: the handler's context (of an MCPServer, a low-level server, FastMCP), or the mapping of responses.
        key: the key of the question.
        model: a pydantic model of primitive fields.

    Returns:
        The content as a `model`. None if there is no answer under `key`, or the answer was declined or cancelled, is of
        another kind, has no content, or has content that does not match `model`. `input_response` tells these apart.

    Raises:
        NotInCall: `source` is a context outside a request.
        TypeError: `source` is none of these, or `model` is no pydantic model.
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
    """The answer under `key`. Its `kind` is "missing", "elicit" (with `action`, `content`), "sampling" (with `result`)
    or "roots" (with `roots`).

    Args:
        source: the handler's context (of an MCPServer, a low-level server, FastMCP), or the mapping of responses.
        key: the key of the question.

    Raises:
        NotInCall: `source` is a context outside a request.
        TypeError: `source` is none of these, or has a response that is not one of the SDK's results.
    """
    answer = _answers(source).get(key)
    if answer is None:
        return Missing()
    if isinstance(answer, ElicitResult):
        return Elicited(answer.action, answer.content if answer.action == "accept" else None)
    if isinstance(answer, ListRootsResult):
        return Roots(answer.roots)
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
    """Inside this context manager the readers take the answers of `ctx` from `answers`: a step of a ToolBuilder reads
    its own answers, not those of its request."""
    token = _given.set(_Given(ctx, answers))
    try:
        yield
    finally:
        _given.reset(token)


def _answers(source: object) -> Answers:
    given = _given.get()
    if given is not None and given.ctx is source:
        return given.answers
    return handler_context.answers(source, "a reader of responses")
