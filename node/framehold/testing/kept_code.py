"""Keeps the code of the handler of a rehearsed call, in the place of a fleet's store."""

from __future__ import annotations

from ..code.codes import NotKept, NotLoaded, Registered, read, too_large
from ..code.keeper import CodeKeeper, Handler
from ..config import Settings

_OFF = "no code is kept with FRAMEHOLD_KEEP_CODE=false or FRAMEHOLD_PICKLE=false"


class KeptCode(CodeKeeper):
    """The kept code of one call, for all its nodes. `settings` decide whether code is kept and loaded.

    - `written`: the code as bytes, by its digest
    - `problem`: why the call can't go on with the code that it began with; empty if nothing stands in the way
    - `entered`: whether kept code was entered
    """

    def __init__(self, settings: Settings, written: dict[str, bytes] | None = None, problem: str = "") -> None:
        self._limit = settings.max_code
        self._off = not (settings.keep_code and settings.pickle)
        self.written = dict(written or {})
        self.problem = problem or (_OFF if self._off else "")
        self.entered = False

    def is_due(self, code: str, lifetime: float) -> bool:
        """Whether this code is still to be kept."""
        return bool(code) and code not in self.written and not self.problem

    async def keep(self, handler: Handler, lifetime: float) -> None:
        """Keep the code of a handler, or note the problem."""
        try:
            data = handler.written()
            if excess := too_large(len(data), self._limit):
                raise NotKept(excess)
        except NotKept as error:
            self.problem = f"its code is not kept: {error}"
        else:
            self.written[handler.code] = data

    async def load(self, handler: Handler, code: str) -> bool:
        """Have `handler` enter the kept code of this digest. Returns whether it will; if not, the problem is noted."""
        if self._off or code not in self.written:
            return False
        try:
            data = self.written[code]
            handler.enter_kept(code, read(data), data)
        except NotLoaded as error:
            self.problem = f"its kept code can't be loaded: {error}"
            return False
        self.entered = True
        return True

    async def find(self, code: str) -> Registered | None:
        """The kept code of this digest; None if it can't be loaded here."""
        if self._off or code not in self.written:
            return None
        try:
            return read(self.written[code]).handler
        except NotLoaded as error:
            self.problem = f"its kept code can't be loaded: {error}"
            return None
