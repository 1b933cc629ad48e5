"""What an operator does to one tool: pause it, and resume it.

The law: a pause is in the store before the operator gets the reply, so it outlives this process, and each node learns
of it with its next heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from framehold_core.errors import StoreUnavailable
from framehold_fleet.models.fields import printable

from ..engine.doors.pauses import Pauses
from ..telemetry.tool_labels import READING
from .actions import ActionResult

_PAUSED = (
    "tool {} is paused: each node refuses new calls of it, at once here and elsewhere after its next heartbeat; what "
    "runs ends its round, and parked calls wait as long as their tokens are valid; end it with: framehold resume {}"
)
_AGAIN = "tool {} was paused before, and stays paused"
_RESUMED = "tool {} takes calls again, at once here and elsewhere after the next heartbeat of each node"
_NOT_PAUSED = "tool {} is not paused; nothing was done"
_NONE = "there is no tool or prompt {} here; nothing was done; there are: {}"
_SILENT = "the store did not answer ({}): it is not known whether it took the change; try again"
MAX_NAMED = 50
"""How many names an error lists."""


class ToolActions:
    """Pauses and resumes tools for an `operator`, as events name them. `names` returns the names of the server's tools
    and prompts, None if the server can't list them."""

    def __init__(self, pauses: Pauses, names: Callable[[], Iterable[str] | None]) -> None:
        self._pauses, self._names = pauses, names

    async def pause(self, tool: str, why: str, operator: str) -> ActionResult:
        """Pause a tool or a prompt by its name; all resources are paused together, under the name of their method.
        Status 404: the server has none of this name. Status 503: the store did not answer."""
        names, shown = self._names(), str(printable(tool))
        if names is not None and tool not in (known := (*names, READING)):
            return ActionResult(404, _NONE.format(shown, ", ".join(str(printable(name)) for name in known[:MAX_NAMED])))
        try:
            fresh = await self._pauses.pause(tool, why, operator)
        except StoreUnavailable as error:
            return ActionResult(503, _SILENT.format(error))
        return ActionResult(200, (_PAUSED if fresh else _AGAIN).format(shown, shown))

    async def resume(self, tool: str, operator: str) -> ActionResult:
        """End the pause of a tool. Status 404: it is not paused. Status 503: the store did not answer."""
        shown = str(printable(tool))
        try:
            paused = await self._pauses.resume(tool, operator)
        except StoreUnavailable as error:
            return ActionResult(503, _SILENT.format(error))
        return ActionResult(200, _RESUMED.format(shown)) if paused else ActionResult(404, _NOT_PAUSED.format(shown))
