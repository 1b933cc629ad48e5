"""The effects of a rehearsed call. They run while the call is held; in the other ways they get the result of that
run."""

from __future__ import annotations

import copy
import reprlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from framehold_core.replay import DEPENDS

from ..frame import fingerprints
from ..frame.once import in_doubt
from .client_script import RehearsalFailed

_words = reprlib.Repr()
_words.maxstring = _words.maxother = 200


@dataclass(slots=True)
class _EffectRun:
    """An effect that ran: the name of its function, the fingerprint that a journal would keep, a text of its arguments,
    and its return value or its error. The error is `InDoubt` for an effect that did not end, or that cancelled
    itself."""

    name: str
    fp: str
    arguments: str
    value: Any
    error: Exception | None


class Effects:
    """The effects of a held call, by key, in the order in which they ran."""

    def __init__(self) -> None:
        self._runs: dict[str, list[_EffectRun]] = {}

    async def run(self, key: str, call: partial[Any], run: Callable[[], Awaitable[Any]]) -> Any:
        """Run an effect, and keep a copy of its return value, or its error."""
        effect = _EffectRun(*_described(call), None, in_doubt(key))
        self._runs.setdefault(key, []).append(effect)
        try:
            value = await run()
        except Exception as error:
            effect.error = error
            raise
        effect.value, effect.error = _copied(value), None
        return value

    def again(self, key: str, turn: int, call: partial[Any]) -> Any:
        """The return value of the effect while the call was held, without running it; or raise its error. `once` stores
        either as usual. `turn` counts the runs of effects under this key, from 1.

        Raises:
            RehearsalFailed: no effect ran under this key while the call was held, or another one did.
        """
        turns = self._runs.get(key, [])
        if not turns:
            raise RehearsalFailed(f"the effect {key!r} of once did not run when the call was held; likely {DEPENDS}")
        if turn > len(turns):
            raise RehearsalFailed(f"the effect {key!r} of once runs {turn} times, and did {len(turns)} times when held")
        was, (name, fp, arguments) = turns[turn - 1], _described(call)
        if name != was.name:
            raise RehearsalFailed(
                f"the effect {key!r} of once is {name}, and was {was.name} when the call was held; likely {DEPENDS}"
            )
        if fp != was.fp:
            raise RehearsalFailed(
                f"the effect {key!r} of once is called with {arguments}, and was with {was.arguments} when the "
                f"call was held; likely {DEPENDS}"
            )
        if was.error is not None:
            raise was.error.with_traceback(None)
        return was.value


def _copied(value: Any) -> Any:
    """A copy of `value`, which the handler may change. A value that can't be copied is returned itself: `once` can't
    keep it either."""
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def _described(call: partial[Any]) -> tuple[str, str, str]:
    """The name, the fingerprint and the arguments (as a text) of an effect."""
    words = [_words.repr(value) for value in call.args]
    words += [f"{name}={_words.repr(value)}" for name, value in call.keywords.items()]
    return fingerprints.name_of(call), fingerprints.of(call, (), {}), f"({', '.join(words)})"
