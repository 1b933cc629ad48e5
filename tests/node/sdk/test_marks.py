"""What authors promise of their handlers: found behind whatever stands before the function."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import validate_call

import framehold
from framehold.sdk.marks import MAX_TTL_SECONDS, marks_of

WEEK = 7 * 24 * 3600


async def plain(word: str) -> str:
    return word


def fresh() -> Any:
    """An unmarked handler that no other test has marked."""

    async def handler(word: str, times: int = 1) -> str:
        return ", ".join(word for _ in range(times))

    return handler


def said(fn: Any) -> tuple[object, ...]:
    marks = marks_of(fn)
    return marks.reentrant, marks.strategy, marks.ttl


def test_marks_combine_and_the_outermost_counts() -> None:
    inner = fresh()
    assert said(inner) == (False, None, None)
    assert framehold.options(strategy="hold", ttl=1)(inner) is framehold.reentrant(inner) is inner
    assert said(framehold.options(ttl=2)(inner)) == (True, "hold", 2)
    assert said(framehold.reentrant(framehold.options(strategy="replay", ttl=1.5)(fresh()))) == (True, "replay", 1.5)

    @framehold.options(ttl=3)
    @functools.wraps(inner)
    async def outer(*args: Any, **kwargs: Any) -> Any:
        return await inner(*args, **kwargs)

    assert said(outer) == (True, "hold", 3) and said(inner) == (True, "hold", 2)


class Desk:
    @framehold.reentrant
    async def method(self, word: str) -> str:
        return word

    @framehold.reentrant
    @staticmethod
    async def above_static(word: str) -> str:
        return word

    @framehold.reentrant
    @classmethod
    async def above_class(cls, word: str) -> str:
        return word

    @staticmethod
    @framehold.reentrant
    async def below_static(word: str) -> str:
        return word

    @framehold.reentrant
    async def __call__(self, word: str) -> str:
        return word


def bare_wrapper(fn: Any, attribute: str = "__wrapped__") -> Any:
    async def wrapper(*args: Any) -> Any:
        return await fn(*args)

    setattr(wrapper, attribute, fn)
    return wrapper


STANDS_BEFORE: dict[str, Callable[[Any], Any]] = {
    "functools.wraps": lambda fn: functools.wraps(fn)(bare_wrapper(fn)),
    "__wrapped__": bare_wrapper,
    "two wrappers": lambda fn: bare_wrapper(bare_wrapper(fn)),
    "raw_function": functools.partial(bare_wrapper, attribute="raw_function"),
    "validate_call": validate_call,
    "a partial": lambda fn: functools.partial(fn, "word"),
    "validate_call of a partial": lambda fn: validate_call(functools.partial(fn, "word")),
    "lru_cache": functools.cache,
}


@pytest.mark.parametrize("kind", STANDS_BEFORE)
def test_a_mark_is_found_behind(kind: str) -> None:
    early, late = framehold.reentrant(fresh()), fresh()
    assert said(STANDS_BEFORE[kind](early)) == (True, None, None)
    before = STANDS_BEFORE[kind](late)
    assert said(before) == (False, None, None)
    framehold.reentrant(late)
    assert said(before) == (True, None, None)
    assert said(framehold.options(ttl=5)(before)) == (True, None, 5)


@pytest.mark.parametrize("name", ["method", "above_static", "above_class", "below_static"])
def test_a_method_is_marked(name: str) -> None:
    assert said(getattr(Desk(), name)) == said(getattr(Desk, name)) == (True, None, None)


def test_a_bound_method_can_be_marked() -> None:
    """Which marks the function, for all instances."""

    class Two:
        async def ask(self) -> None: ...

    one = Two().ask
    assert framehold.reentrant(one) is one
    assert said(one) == said(Two().ask) == (True, None, None)


def test_a_callable_object_is_marked_by_its_class_or_itself() -> None:
    """Those that can't be remembered are looked at each time."""

    class Unhashable(Desk):
        __hash__ = None  # type: ignore[assignment]  # that is the point

    class Slotted:
        __slots__ = ()

        @framehold.options(ttl=4)
        async def __call__(self) -> None: ...

    one, two = Desk(), Desk()
    framehold.options(ttl=9)(one)
    assert said(one) == (True, None, 9) and said(two) == said(Unhashable()) == (True, None, None)
    assert said(Slotted()) == (False, None, 4)


def test_a_proxy_that_wraps_for_ever_is_given_up() -> None:
    class Endless:
        def __getattr__(self, name: str) -> Endless:
            return Endless()

        def __call__(self) -> None: ...

    assert said(Endless()) == (False, None, None)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (framehold.reentrant, "@framehold.reentrant is written without parentheses"),
        (lambda: framehold.options(plain), r"is written with parentheses, as @framehold.options\(ttl=60\)"),
        (lambda: framehold.reentrant("book"), "goes on a function, not on an object of type str"),  # type: ignore[type-var]  # that is the point
        (lambda: framehold.reentrant(Desk), "not on the class Desk"),
        (lambda: framehold.reentrant(len), "can't mark the built-in len, which takes no attributes"),
        (lambda: framehold.options(ttl=1)(property(plain)), "not on an object of type property"),  # type: ignore[type-var]  # that is the point
    ],
)
def test_what_cannot_be_marked(wrong: Callable[[], object], says: str) -> None:
    with pytest.raises(TypeError, match=says) as result:
        wrong()
    assert "nothing was marked" in str(result.value)
    assert said(plain) == (False, None, None)


WRONG: list[dict[str, Any]] = [{"ttl": ttl} for ttl in (0, -1, math.nan, math.inf, WEEK + 1, True, "60")]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        *((options, "ttl must be more than 0 and at most 604800 seconds") for options in WRONG),
        ({"strategy": "keep"}, 'strategy must be "hold" or "replay", not \'keep\'; nothing was marked'),
        *(({"keep_code": keep}, "keep_code must be False, .*nothing was marked") for keep in (True, 0, "no")),
        ({}, "decides nothing"),
    ],
)
def test_wrong_options(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        framehold.options(**options)
    assert said(framehold.options(ttl=WEEK)(fresh())) == (False, None, MAX_TTL_SECONDS)


def test_a_code_that_is_not_kept() -> None:
    """If one of the functions that stand before each other says so."""
    assert marks_of(fresh()).keep_code
    assert not marks_of(functools.partial(framehold.options(keep_code=False)(fresh()))).keep_code
