"""The effects of a rehearsed call. They run while the call is held; in the other ways they get the result of that run,
after the same time and in the same order.
Other code that carries the call on may run other effects: each of these runs once, too."""

from __future__ import annotations

import asyncio
import base64
import reprlib
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from framehold_core.errors import ResultNotKept, ValueUnreadable
from framehold_core.replay import DEPENDS
from framehold_store.values import Values

from ..frame import fingerprints
from ..frame.contained import ENDS_PROCESS, in_place_of
from ..frame.once import broken_off, in_doubt
from .client_script import RehearsalEnds, RehearsalFailed

_words = reprlib.Repr()
_words.maxstring = _words.maxother = 200


@dataclass(slots=True)
class _EffectRun:
    """An effect that ran: the name of its function, the fingerprint that a journal would keep, a text of its arguments,
    and its return value or its error. The error is `InDoubt` for an effect that did not end, or that cancelled
    itself. It ran for `seconds`, and `place` effects had ended before it did."""

    name: str
    fp: str
    arguments: str
    value: Any
    error: Exception | None
    seconds: float = 0.0
    place: int = 0

    def result(self) -> Any:
        """Return its value, or raise its error."""
        if self.error is not None:
            raise self.error.with_traceback(None)
        return self.value


class RecordedEffects:
    """The effects of a held call, by key, in the order in which they ran."""

    def __init__(self) -> None:
        self._runs: dict[str, list[_EffectRun]] = {}
        self._ended = 0
        self._given: list[tuple[int, asyncio.Event]] = []
        """The places of the effects whose results are being given, and what is set when they are."""

    async def run(self, key: str, call: partial[Any], run: Callable[[], Awaitable[Any]]) -> Any:
        """Run an effect, and keep a copy of its return value, or its error."""
        effect = _EffectRun(*_described(call), None, in_doubt(key))
        self._runs.setdefault(key, []).append(effect)
        began = time.monotonic()
        try:
            value = await run()
        except Exception as error:
            effect.error = error
            raise
        except BaseException as error:
            effect.error = in_place_of(error) if isinstance(error, ENDS_PROCESS) else broken_off(key, error)
            raise
        finally:
            effect.seconds, effect.place, self._ended = time.monotonic() - began, self._ended, self._ended + 1
        effect.value, effect.error = _copied(value), None
        return value

    async def _result(self, was: _EffectRun) -> Any:
        """The result of an effect, after as long as it ran, and after those that ended before it."""
        given = asyncio.Event()
        self._given.append(turn := (was.place, given))
        try:
            await asyncio.sleep(was.seconds)
            while before := [event for place, event in self._given if place < was.place]:
                await before[0].wait()
        finally:
            self._given.remove(turn)
            given.set()
        return was.result()

    async def again(self, key: str, turn: int, call: partial[Any]) -> Any:
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
        return await self._result(was)

    async def once(self, key: str, call: partial[Any], run: Callable[[], Awaitable[Any]]) -> Any:
        """The result of this effect, if it ran in any way under this key; else run it, and keep its result."""
        name, fp, _ = _described(call)
        known = (was for was in self._runs.get(key, ()) if (was.name, was.fp) == (name, fp))
        if (was := next(known, None)) is not None:
            return await self._result(was)
        return await self.run(key, call, run)

    def dump(self) -> list[list[Any]]:
        """The effects as JSON, for `load`. Their results are stored as a journal stores them."""
        return [[key, *_packed(was)] for key, runs in self._runs.items() for was in runs]

    def load(self, dumped: Iterable[list[Any]]) -> None:
        """Add effects that `dump` returned. Results may be unpickled: the caller trusts their source. One that can't be
        read here ends the rehearsal for who asks for it."""
        for key, name, fp, arguments, codec, data, seconds, place in dumped:
            effect = _EffectRun(name, fp, arguments, *_unpacked(key, codec, data), seconds, place)
            self._runs.setdefault(key, []).append(effect)
            self._ended = max(self._ended, place + 1)


_VALUES = Values(pickle=True, limit=sys.maxsize)


def _packed(was: _EffectRun) -> tuple[str, str, str, str, str, float, int]:
    try:
        packed = _VALUES.pack(was.value) if was.error is None else _VALUES.pack_error(was.error)
    except ResultNotKept as error:
        # The handler got this error from `once`.
        packed = _VALUES.pack_error(error)
    data = base64.b64encode(packed.data).decode()
    return was.name, was.fp, was.arguments, packed.codec, data, was.seconds, was.place


def _unpacked(key: str, codec: str, data: str) -> tuple[Any, Exception | None]:
    try:
        found = _VALUES.unpack(codec, base64.b64decode(data))
    except ValueUnreadable as error:
        return None, RehearsalEnds(f"the rehearsal ends at the effect {key!r}, whose result is not played: {error}")
    return found.value, found.error


def _copied(value: Any) -> Any:
    """A copy of `value`, which the handler may change, as a journal gives it: what is one object in its module stays
    that object. A value that no journal keeps is returned itself: `once` refuses it, too."""
    try:
        return _VALUES.unpack(*_VALUES.pack(value)).value
    except (ResultNotKept, ValueUnreadable):
        return value


def _described(call: partial[Any]) -> tuple[str, str, str]:
    """The name, the fingerprint and the arguments (as a text) of an effect."""
    words = [_words.repr(value) for value in call.args]
    words += [f"{name}={_words.repr(value)}" for name, value in call.keywords.items()]
    return fingerprints.name_of(call), fingerprints.of(call, (), {}), f"({', '.join(words)})"
