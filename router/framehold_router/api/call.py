"""Shows one call: its record, which is read once, and the state of its frame, which its owner reports. And shows where
the router sends a token.

The law: no sealed value is opened. Of a journal, keys and sizes are shown, never values. What will happen to the
call is decided by core; here it is worded. Of a token only the routing prefix is read: no token is opened, stored or
logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from framehold_core import journal, ownership, token
from framehold_core.ending import ANSWERS, How
from framehold_core.errors import JournalError, JournalVersionError, StoreUnavailable
from framehold_core.ids import CallId, NodeId, is_call_id
from framehold_core.requests import Evidence, Read, Record, RecordState, Stored, Verdict
from framehold_fleet.members import session_ids
from framehold_fleet.members.membership import Member
from framehold_fleet.models.calls import CallView, EndedCallView, EntryView, LeaseView, LookupQuery, LookupView, Trail
from framehold_fleet.models.choices import State

from ..collect.node_client import Unanswered
from ..routing.request_facts import Facts, RequestKind
from . import calls, leases
from .sources import ApiRequest, RequestDenied, Sources


async def answer(sources: Sources, asked: ApiRequest) -> CallView:
    """`GET leases/{call_id}`."""
    call = named(asked)
    stored = await read(sources, call)
    if stored is None:
        held = await _held_anywhere(sources, call)
        return _unrecorded(held) if held is not None else _ended_unrecorded(await calls.one(sources, call), call)
    record = stored.record
    is_open = record.state is RecordState.OPEN
    owner = sources.fleet().members.get(NodeId(record.owner))
    lives = owner is not None and owner.boot == record.head.boot
    live: LeaseView | None = None
    answered = True
    if owner is not None and is_open:
        try:
            live = await leases.one(sources, owner, call)
        except Unanswered:
            answered = False
    ended = None
    if (live is None and lives and answered) if is_open else sources.trace_url:
        ended = await calls.one(sources, call)
    diverged = ended is not None and (ended.outcome, ended.node_id) == (How.DIVERGED, record.owner)
    known = Known(live, lives, answered, diverged, *ownership.next_claim(call, stored, lives, sources.max_attempts))
    return _view(call, stored).model_copy(
        update={
            "live": live,
            "fate": _fate(record, known),
            "outcome": _outcome(record, known),
            "trace_url": ended.trace_url if ended is not None else "",
        }
    )


def named(asked: ApiRequest) -> CallId:
    """The id of the call in the path of a request.

    Raises:
        Refused: it is no call id.
    """
    text = asked.path["call_id"]
    if not is_call_id(text):
        raise RequestDenied(404, "that is no call id; find calls by the first letters of theirs with leases?call=")
    return CallId(text)


async def read(sources: Sources, call: CallId) -> Stored | None:
    """The record and the journal of a call; None if there is no record.

    Raises:
        Refused: the store did not answer, or the record can't be read.
    """
    try:
        return (await sources.store.run(Read(call))).stored
    except StoreUnavailable:
        text = "the store did not answer, or can't read this record: nothing is known of the call; try again"
        raise RequestDenied(503, text) from None


async def _held_anywhere(sources: Sources, call: CallId) -> LeaseView | None:
    """The call as any node lists it; None if none does. A call without a record may be in its first round."""
    members = sources.fleet().members.values()
    requests = (leases.one(sources, member, call) for member in members)
    found = await asyncio.gather(*requests, return_exceptions=True)
    return next((item for item in found if isinstance(item, LeaseView)), None)


def _ended_unrecorded(ended: EndedCallView | None, call: CallId) -> CallView:
    """A call that ended without a record, as the node wrote it on which it ended.

    Raises:
        Refused: it is not listed.
    """
    if ended is None:
        text = f"there is no record of call {call[:8]}: it asked nothing, or it expired or ended and is no longer kept"
        raise RequestDenied(404, text)
    return CallView(
        **ended.model_dump(
            include={"call_id", "outcome", "error", "place", "trace_url", "tool", "node_id", "reentrant"}
        ),
        record="none",
        method="",
        epoch=1,
        # How often it asked.
        round=max(0, ended.rounds - (ended.outcome in ANSWERS)),
        attempts=0,
        created=ended.began,
        fate="It has ended, and no record of it is kept. It is listed for an hour after its end.",
    )


def _unrecorded(live: LeaseView) -> CallView:
    return CallView(
        **live.model_dump(include={"call_id", "tool", "method", "strategy", "reentrant", "node_id", "epoch", "round"}),
        record="none",
        attempts=0,
        live=live,
        fate="It runs, and has no record yet: if its node dies, its client's request fails, and may start it anew.",
    )


def _view(call: CallId, stored: Stored) -> CallView:
    record = stored.record
    head = record.head
    return CallView(
        call_id=call,
        record=record.state.value,
        cause=record.cause,
        error=record.error,
        place=record.place,
        tool=head.tool,
        method=head.method,
        strategy=head.strategy,
        reentrant=head.reentrant,
        node_id=record.owner,
        epoch=record.epoch,
        round=record.round,
        attempts=record.attempts,
        created=record.created,
        expires=record.expires,
        journal=_entries(stored.journal),
        trail=tuple(
            Trail(
                step=str(step.step),
                round=step.round,
                epoch=step.epoch,
                node_id=step.node,
                at=step.at,
                ran=step.ran,
                kept_code=step.kept,
            )
            for step in getattr(record, "trail", ())
        ),
    )


def _entries(raw: Sequence[bytes]) -> tuple[EntryView, ...]:
    """The lines of a journal, up to the first that this release can't read."""
    found: list[EntryView] = []
    for n, line in enumerate(raw):
        try:
            item = journal.decode(line, n)
        except (JournalError, JournalVersionError):
            break
        found.append(
            EntryView(n=n, kind=item.kind, key=item.key, round=item.round, lane=item.lane, bytes=len(item.value))
        )
    return tuple(found)


class Known(NamedTuple):
    """What is known of a call beside its record. `live` is the call as its owner lists it. `lives`: the process that
    owns it has its lease. `answered`: the owner said whether it holds the frame. `diverged`: its replay diverged on the
    owner. If no process has a frame of it, it is claimed next with this `evidence`, and the store says `verdict`."""

    live: LeaseView | None
    lives: bool
    answered: bool
    diverged: bool
    evidence: Evidence
    verdict: Verdict


def _outcome(record: Record, known: Known) -> str:
    """How a call ended; empty while it may go on, and where its record does not say it."""
    if record.ending is not None:
        return record.ending.how.value
    if record.state is not RecordState.OPEN or known.live is not None:
        return ""
    if known.verdict is Verdict.STUCK and not (known.lives and not known.answered):
        return How.STUCK.value
    return How.DIVERGED.value if known.diverged else ""


def _fate(record: Record, known: Known) -> str:
    """What will happen to a call, in sentences."""
    live = known.live
    until = datetime.fromtimestamp(min(record.expires, 2**33), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if record.state is RecordState.DONE:
        return f"It has ended; its outcome, or the digest of a large one, is kept until {until} for late duplicates."
    if record.state is RecordState.LOST:
        return f"It is lost: not re-entrant, and its frame is gone. Its retries are told so until {until}."
    if live is not None and live.state is State.PARKED:
        mortal = "" if record.head.reentrant else " It is not re-entrant: it is lost if its node ends before."
        return f"Its node holds its frame; it continues when its client answers.{mortal}"
    if live is not None:
        return "Its node runs a round of it."
    if known.lives and not known.answered:
        return "Its node has its lease and did not say whether it holds the frame: look again, and look at the node."
    if known.verdict is Verdict.STUCK:
        return (
            f"It is stuck: {record.attempts} owners in a row are gone that ran it, and nobody enters it again. Its "
            f"retries are told so until {until}. Look why its handler kills its nodes."
        )
    if record.round == 0:
        return f"Its frame is gone, and it had asked nothing: nobody has a token to come back with. It goes at {until}."
    if known.verdict is Verdict.LOST:
        return "Not re-entrant, and its frame is gone: its next retry is told that it is lost."
    if known.diverged:
        return (
            f"{record.owner} can't continue it: its replay there diverged from its journal, and its next retry is told "
            f"so again. The log of {record.owner} names what differs. The journal is kept until {until} for the code "
            "that wrote it: start nodes with that code."
        )
    # The record doesn't say how long the token is valid, only that it is kept longer (docs/protocol.md, rule 17).
    return f"{_NEXT[known.evidence]}, as long as its token is valid; without one it goes at {until}."


_NEXT = {
    Evidence.RELEASED: "It was handed off: its client's next retry replays it on another node",
    Evidence.OWNER: "Its node holds no frame of it: its client's next retry replays it",
    Evidence.GONE: "Its node is gone: its client's next retry replays it on another node",
}
"""What becomes of a call without a frame that may be claimed, by why it may be."""


def owner_of(sources: Sources, stored: Stored | None) -> Member | None:
    """The node that a record names as its owner; None if it has no lease, or there is no record."""
    return None if stored is None else sources.fleet().members.get(NodeId(stored.record.owner))


# ---- where a token goes


async def lookup(sources: Sources, asked: ApiRequest) -> LookupView:
    """`POST lookup`."""
    assert isinstance(asked.body, LookupQuery)
    text = asked.body.token
    session = session_ids.parse(text)
    if session is not None:
        member = sources.fleet().members.get(session.node)
        if member is None:
            return LookupView(kind="session", reason="the node that has this session is gone, and the session with it")
        if member.boot != session.boot:
            reason = "this session was of a former life of its node, which says that it is gone"
            return LookupView(kind="session", node_id=member.node, reason=reason)
        return LookupView(kind="session", node_id=member.node, reason="session")
    routed = token.parse(text)
    if routed is None:
        return LookupView(kind="other", reason="any")
    if routed.call is None:
        return LookupView(kind="replay", reason="any")
    return await _placed(sources, routed.call)


async def _placed(sources: Sources, call: CallId) -> LookupView:
    fleet = sources.fleet()
    on_ring, position = fleet.ring.owner(call) or "", fleet.ring.position(call)
    placement = sources.place(Facts(RequestKind.RETRY, call=call))
    member = fleet.members.get(placement.node) if placement is not None else None
    if placement is None or member is None:
        reason = "no node can be reached"
        return LookupView(kind="hold", call_id=call, ring_node=on_ring, position=position, reason=reason)
    live, silent = None, False
    try:
        live = await leases.one(sources, member, call)
    except Unanswered:
        silent = True
    reason = placement.reason.value
    return LookupView(
        kind="hold",
        call_id=call,
        ring_node=on_ring,
        position=position,
        node_id=member.node,
        reason=reason,
        live=live,
        silent=silent,
    )
