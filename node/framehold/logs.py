"""What a line of the log says beside its words, for whoever searches many: fields that `extra=` carries.

The law: a call is named by the beginning of its id. No line holds a token, a user, or what was asked and answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framehold_core.ids import prefix

if TYPE_CHECKING:
    from .slots import Slot


def about(slot: Slot) -> dict[str, Any]:
    """The fields of a line about a call: its tool, and its last round and epoch that were written."""
    call = slot.call
    return {"call": prefix(call.id), "tool": slot.tool, "round": call.round, "epoch": call.epoch, "node": call.owner}
