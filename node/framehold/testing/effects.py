"""Effects of a rehearsed call: they run while it is held; the other ways are given what they came to then."""

from __future__ import annotations

import copy
import reprlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from framehold_core.replay import DEPENDS

from .. import fingerprints
from ..onces import doubt
from .script import RehearsalFailed

_words = reprlib.Repr()
_words.maxstring = _words.maxother = 200


@dataclass(slots=True)
class _Came:
    """An effect as it ran: its function's name, the fingerprint that a journal would keep, its arguments in words, and
    what it gave or raised. What breaks off from within, or never ends, has no outcome."""

    name: str
    fp: str
    words: str
    value: Any
    error: Exception | None


class Effects:
    """The effects of a held call, by key and turn."""

    def __init__(self) -> None:
        self._came: dict[str, list[_Came]] = {}

    async def run(self, key: str, call: partial[Any], run: Callable[[], Awaitable[Any]]) -> Any:
        """Run one, and keep what it gives or raises as it is now."""
        came = _Came(*_described(call), None, doubt(key))
        self._came.setdefault(key, []).append(came)
        try:
            value = await run()
        except Exception as error:
            came.error = error
            raise
        came.value, came.error = _copied(value), None
        return value

    def again(self, key: str, turn: int, call: partial[Any]) -> Any:
        """What the effect came to, without running it: given or raised, for `once` to store it as it always does.

        Raises:
            RehearsalFailed: it is another effect than that which ran, or none did.
        """
        turns = self._came.get(key, [])
        if not turns:
            raise RehearsalFailed(f"the effect {key!r} of once did not run when the call was held; likely {DEPENDS}")
        if turn > len(turns):
            raise RehearsalFailed(f"the effect {key!r} of once runs {turn} times, and did {len(turns)} times when held")
        was, (name, fp, words) = turns[turn - 1], _described(call)
        if name != was.name:
            raise RehearsalFailed(
                f"the effect {key!r} of once is {name}, and was {was.name} when the call was held; likely {DEPENDS}"
            )
        if fp != was.fp:
            raise RehearsalFailed(
                f"the effect {key!r} of once is called with {words}, and was with {was.words} when the call was held; "
                f"likely {DEPENDS}"
            )
        if was.error is not None:
            raise was.error.with_traceback(None)
        return was.value


def _copied(value: Any) -> Any:
    """A copy: who else holds the value may change it. What can't be copied can't be kept by `once` either."""
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def _described(call: partial[Any]) -> tuple[str, str, str]:
    words = [_words.repr(value) for value in call.args]
    words += [f"{name}={_words.repr(value)}" for name, value in call.keywords.items()]
    return fingerprints.name_of(call), fingerprints.of(call, (), {}), f"({', '.join(words)})"
