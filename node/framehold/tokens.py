"""What a token of ours claims, as the plaintext that the SDK's request-state boundary seals.

Every state is tagged at the handler layer, ours and the author's: otherwise an author who puts a user's text into
`request_state` could be made to mint one of ours. The visible call id of the finished token is compared with the
sealed one."""

from __future__ import annotations

from typing import NamedTuple

from pydantic_core import from_json

from framehold_core.ids import CallId, NodeId, is_call_id, is_node_id

from .slots import Parked

OURS, AUTHORS = "F", "A"
VERSION = 1


class Claims(NamedTuple):
    """A verified token of a held call: which round it answers, under which epoch and history, and who minted it."""

    call: CallId
    round: int
    epoch: int
    n: int
    mark: str
    node: NodeId
    boot: str


def mint(parked: Parked, node: str, boot: str) -> str:
    """The plaintext state that names a parked round."""
    at = parked.at
    # Every text in it is made of letters, digits and hyphens: nothing needs an escape.
    fields = f'[{VERSION},"{parked.call}",{at.round},{at.epoch},{at.n},"{at.mark}","{node}","{boot}","hold"]'
    return OURS + fields


def read(state: str) -> Claims | None:
    """The claims of a plaintext state of ours, None where it is not one that this release understands."""
    try:
        version, call, round_, epoch, n, mark, node, boot, strategy = from_json(state[len(OURS) :])
    except (ValueError, TypeError):
        return None
    names = isinstance(call, str) and is_call_id(call) and isinstance(node, str) and is_node_id(node)
    counts = all(type(number) is int and number >= 0 for number in (round_, epoch, n))
    if version != VERSION or strategy != "hold" or not names or not counts:
        return None
    return Claims(CallId(call), round_, epoch, n, str(mark), NodeId(node), str(boot))
