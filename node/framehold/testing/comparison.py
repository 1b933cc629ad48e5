"""Plays a call in several ways on one server, and compares them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from framehold_core.errors import causes

from .client_script import ClientScript, RehearsalFailed
from .kept_code import KeptCode
from .recorded_effects import RecordedEffects
from .recording import Recording
from .rehearsal import Act, PlayedCall, Way, compare
from .report import Rehearsal, rehearsal_of
from .server_double import digest_of, settings_of

Reset = Callable[[], Awaitable[None]]
"""Puts the author's state back. It is awaited before each way."""


async def compared(act: Act, others: tuple[Way, ...], script: ClientScript, reset: Reset) -> tuple[Rehearsal, Recorder]:
    """Play the call held, then in the other ways. Returns the rehearsal, and what records the call.

    Raises:
        RehearsalFailed: the ways differ, the held call ends with another exception than `act` has, or there are too
            many answers.
    """
    recorder = Recorder(act, script, reset)
    held = await recorder.played("hold")
    rehearsal = rehearsal_of(held, act.method, ("hold", *others))
    _check_exception(act, held, rehearsal)
    if left := script.left():
        raised = f", and {why}" if (why := held.ended()) else ""
        raise RehearsalFailed(
            f"too many answers: {len(left)} of {len(rehearsal.asked) + len(left)} were not asked for, "
            f"{left[0]!r} first; asked were {rehearsal.questions}; the call came to {rehearsal.text!r}{raised}"
        )
    for way in others:
        compare(held, await recorder.played(way), script)
    return rehearsal, recorder


def _check_exception(act: Act, held: PlayedCall, rehearsal: Rehearsal) -> None:
    """Raise RehearsalFailed if the held call ended with an exception, unless it is one of `act.raises`; also if that
    has any, and the call ended without one."""
    kinds = act.raises if isinstance(act.raises, tuple) else (act.raises,)
    wanted = " or ".join(kind.__name__ for kind in kinds)
    if not (why := held.ended()):
        if wanted:
            came = f"the call came to {rehearsal.text!r}"
            raise RehearsalFailed(f"the handler raised nothing, and the test wants {wanted}; {came}")
        return
    if any(isinstance(item, kinds) for item in causes(held.reported)):
        return
    other = f", and not {wanted}" if wanted else ""
    name = type(held.raised).__name__
    raise RehearsalFailed(
        f"{why}{other}, after {held.last()}; the client gets {rehearsal.text!r}; if the test wants this, say "
        f"raises={name}"
    ) from held.raised


class Recorder:
    """Plays one call, first held, and then in other ways."""

    def __init__(self, act: Act, script: ClientScript, reset: Reset) -> None:
        self._act, self._script, self._reset = act, script, reset
        self._known = RecordedEffects()

    async def played(self, way: Way, code: KeptCode | None = None) -> PlayedCall:
        """The call, played in one way. Raises the first fault that was found in this run alone."""
        await self._reset()
        run = await self._act.play(way, self._script, self._known, code)
        if run.failure is not None:
            raise run.failure
        return run

    async def recording(self) -> Recording:
        """The call, replayed while the code of its handler is kept. It has been played held. Raises RehearsalFailed if
        it can't be replayed."""
        act, server = self._act, self._act.original.server
        code = KeptCode(settings_of(server))
        run = await self.played("replay", code)
        return Recording(
            *(act.original.key, act.method, act.params, act.seed, act.instant, run, self._script, self._known),
            *(digest_of(server, act.method, act.params), code.written, code.problem),
        )
