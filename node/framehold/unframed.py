"""Calls of revisions before 2026-07-28: their handler runs through in one process, so nothing of it is ever replayed.

`once` runs each effect once for each key all the same, and raises what it would raise elsewhere, so that one handler
behaves alike on both wires; nothing is recorded.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from framehold_core.ids import CallId
from framehold_store.values import Packed, Values

from . import fingerprints
from .calling import called, inside, outside, reused
from .chance import Chance, World
from .onces import heard, outcome

_WORLD = World()


class Unframed:
    """What one such call has learned. Fits where `learned.Learned` stands."""

    def __init__(self, values: Values) -> None:
        self._values, self._drawn = values, dict[str, Any]()
        self._effects: dict[str, tuple[str, str, asyncio.Task[Packed]]] = {}
        self.origin = CallId(os.urandom(16).hex())

    async def once(self, key: str, fn: Callable[..., Any], args: Any, kwargs: Any, idempotent: bool) -> Any:
        """Run `fn` once under `key`; what it gave, or raise what it raised. See `authoring.once`."""
        outside(f"once({key!r})")
        name, fp = fingerprints.name_of(fn), fingerprints.of(fn, args, kwargs)
        if key not in self._effects:
            running = asyncio.create_task(self._run(key, fn, args, kwargs), name="framehold-effect")
            self._effects[key] = (name, fp, running)
        known, printed, running = self._effects[key]
        if printed != fp:
            raise reused(key, known, name)
        packed = await heard(running)
        return self._values.unpack(packed.codec, packed.data).get()

    async def _run(self, key: str, fn: Callable[..., Any], args: Any, kwargs: Any) -> Packed:
        inside.set(key)
        return await outcome(self._values, key, lambda: called(fn, args, kwargs))

    def value(self, kind: str, name: str | None, draw: Callable[[Chance, str], Any]) -> Any:
        """A value; under a name always the same one."""
        if name is None:
            return draw(_WORLD, "")
        key = f"{kind}:{name}"
        if key not in self._drawn:
            self._drawn[key] = draw(_WORLD, key)
        return self._drawn[key]
