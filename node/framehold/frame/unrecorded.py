"""Effects and values of a call of a protocol revision before 2026-07-28. Its handler runs to its end in one process, so
it is never replayed and nothing is recorded.

`once` still runs each effect once for each key and raises the same errors as with a frame, and values are kept while
the call runs: a handler behaves the same on both wires, also one that returns its questions and is entered again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from framehold_core.ids import CallId
from framehold_store.values import PackedResult, Values

from . import fingerprints
from .effect_call import call_effect, key_reused, refuse_inside_effect, running_effect
from .entropy import Entropy
from .once import run_and_pack, wait_for_outcome


class Unrecorded:
    """The effects and values of one call of an earlier revision. It has the methods of `recorded.Recorded` that the
    authors' functions use."""

    def __init__(self, values: Values, entropy: Entropy) -> None:
        self._values, self._entropy = values, entropy
        self._drawn, self._counts = dict[str, Any](), Counter[str]()
        self._effects: dict[str, tuple[str, str, asyncio.Task[PackedResult]]] = {}
        self.origin = CallId(entropy.draw("").hex())
        self.failed: object = None
        """The outcome that the call has because its handler made a mistake; None if it made none."""
        self.ended = False
        """Whether the handler has ended."""

    async def once(self, key: str, fn: Callable[..., Any], args: Any, kwargs: Any, idempotent: bool) -> Any:
        """Run `fn` once under `key`; return its result, or raise its error. See `authoring.once`."""
        refuse_inside_effect(f"once({key!r})")
        name, fp = fingerprints.name_of(fn), fingerprints.of(fn, args, kwargs)
        if key not in self._effects:
            running = asyncio.create_task(self._run(key, fn, args, kwargs), name="framehold-effect")
            self._effects[key] = (name, fp, running)
        known, printed, running = self._effects[key]
        if printed != fp:
            raise key_reused(key, known, name)
        packed = await wait_for_outcome(running)
        return self._values.unpack(packed.codec, packed.data).get()

    async def _run(self, key: str, fn: Callable[..., Any], args: Any, kwargs: Any) -> PackedResult:
        running_effect.set(key)
        return await run_and_pack(self._values, key, lambda: call_effect(fn, args, kwargs))

    def begin_again(self) -> None:
        """The handler is entered again in the same call: its unnamed values are counted from the first one."""
        self._counts.clear()

    def value(self, kind: str, name: str | None, draw: Callable[[Entropy, str], Any]) -> Any:
        """A drawn value. Within the call it is always the same one under its name, or its number if it has none. Inside
        an effect it is drawn anew."""
        if running_effect.get() is not None:
            return draw(self._entropy, "")
        if name is None:
            self._counts[kind] += 1
        key = f"{kind}-{self._counts[kind]}" if name is None else f"{kind}:{name}"
        if key not in self._drawn:
            self._drawn[key] = draw(self._entropy, key)
        return self._drawn[key]
