"""What a mutation puts in the place of a rule: the same functions, wrong in one thing each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framehold_core import lease, ownership, record, recovery, replay, retry, rounds, takeover, writes
from framehold_core.call import Call, Move, Phase, drop_and_forget, questions, send
from framehold_core.effects import Effect, Go, Op, Outcome, Questions, Relay, Respond, Run, Write
from framehold_core.ending import COMPLETED
from framehold_core.events import Acked, Asked, Event, Evict, Finished, Found, Intended, Renewed, Resulted, Retry, Stop
from framehold_core.ids import Incarnation, NodeId
from framehold_core.journal import Entry, EntryKind
from framehold_core.lease import Lease
from framehold_core.ownership import Sight
from framehold_core.requests import (
    Claim,
    Commit,
    Evidence,
    Fence,
    Finish,
    Head,
    Intent,
    RecordState,
    Reply,
    Result,
    Stored,
    Verdict,
    Verify,
)
from framehold_core.value import replace
from framehold_core.writes import once_digest

from .clients import Client
from .driver import Driver
from .handlers import Frame
from .membership import Membership
from .node import Process
from .scripts import Attempt, Scripts, Slot, terms
from .world import World


def ungated_questions(call: Call, event: Asked, now: float) -> Move:
    move = rounds.asked(call, event, now)
    early = Questions(call.round + 1, call.epoch, call.position, call.history)
    replies = tuple(Respond(item.waiter, early) for item in call.waiting)
    return Move(replace(move.call, waiting=()), (*move.effects, *replies))


def ungated_outcome(call: Call, event: Finished, now: float) -> Move:
    move = rounds.finished(call, event, now)
    replies = tuple(Respond(item.waiter, Outcome(event.outcome)) for item in move.call.waiting)
    return Move(replace(move.call, waiting=()), (*move.effects, *replies))


def hasty_effect(call: Call, event: Intended, now: float) -> Move:
    move = rounds.intended(call, event, now)
    return replace(move, effects=(*move.effects, Go(event.key)))


def answers_left_behind(call: Call, event: Intended, now: float) -> Move:
    """The intent alone: the round's answers go with the next questions, or with the outcome."""
    if event.draft is None:
        return rounds.intended(call, event, now)
    write = Write(Op.INTEND, (event.draft,), key=event.key)
    outbox, effects = send(call, write)
    return Move(replace(call, outbox=outbox, intents=call.intents | {event.key}), effects)


def _without_results(call: Call) -> Call:
    notes = tuple(draft for draft in call.notes if draft.kind not in (EntryKind.RESULT, EntryKind.EFFECT))
    return replace(call, notes=notes, owed=())


def drops_results(call: Call, event: Asked, now: float) -> Move:
    """What the call owes does not go with its questions, nor later."""
    return rounds.asked(_without_results(call), event, now)


def parks_before_results(call: Call, event: Asked, now: float) -> Move:
    """What the call owes goes with the write behind its questions."""
    move = rounds.asked(_without_results(call), event, now)
    late = tuple(draft for draft in call.notes if draft.kind in (EntryKind.RESULT, EntryKind.EFFECT))
    return replace(move, call=replace(move.call, notes=late, owed=call.owed))


def unrecorded_effect(call: Call, event: Intended) -> Move:
    """An effect that needs no intent runs at once, whatever its handler has learned."""
    return Move(*rounds._let_run(call, event.key, event.is_open))


def result_of_anybody(stored: Stored | None, request: Result, now: float) -> record.Applied:
    """A result counts, whoever has the call by now."""
    if stored is not None:
        seen = stored.record
        owner, incarnation = NodeId(seen.owner), Incarnation(seen.incarnation)
        mine = replace(request.fence, owner=owner, incarnation=incarnation, epoch=seen.epoch)
        request = replace(request, fence=mine)
    return _RIGHT_RESULT(stored, request, now)


def droppable_while_it_owes(call: Call) -> bool:
    """A frame may be dropped whose effects have run, whether or not their results are written."""
    return call.reentrant and len(call.intents) == len(call.owed) and call.outbox.in_flight is None


def result_first(driver: Driver, slot: Slot, frame: Frame, name: str) -> None:
    """The result is written as soon as the effect may run; it runs a moment later, if this process still lives."""
    frame.pending[name] = f"{slot.call.id}:{name}"
    driver.feed(slot, Resulted(once_digest(name), frame.result_draft(name, slot.call.round)))
    slot.process.later(0.02, _RIGHT_EFFECT, driver, slot, frame, name)


def another_text(cursor: replay.Cursor, place: replay.Place, fp: str, *args: Any) -> Any:
    """What was recorded under a key is taken for the same, whatever it said."""
    owed = cursor._owed.get(place)
    return _RIGHT_MEET(cursor, place, owed.fp if owed else fp, *args)


def loads_unnamed(slot: Slot, head: Head) -> None:
    """Kept code may be entered, but what the slot writes names the present code."""
    present = replace(head, boot=slot.process.boot, code=slot.process.code_of(slot.tool))
    slot.terms = terms(slot.call, present)


def blind_fence(*blind: str) -> Callable[..., Verdict]:
    """The check of the fence, blind to some of what a write presents."""
    seeing = record.check_fence

    def check(stored: Stored | None, fence: Fence, resulting: str | None, creates: bool) -> Verdict:
        if stored is not None:
            fence = replace(fence, **{name: getattr(stored.record, name) for name in blind})
        return seeing(stored, fence, resulting, creates)

    return check


def keeps_epoch(script: type[Verify] | type[Claim]) -> Callable[..., Any]:
    right = record._SCRIPTS[script]

    def wrong(stored: Stored | None, request: Any, now: float) -> Any:
        after, reply = right(stored, request, now)
        if reply.verdict is not Verdict.OK or after is None or stored is None:
            return after, reply
        same = Stored(replace(after.record, epoch=stored.record.epoch), after.journal)
        return same, replace(reply, epoch=stored.record.epoch, stored=same if reply.stored else None)

    return wrong


def forgetful_intent(stored: Stored | None, request: Intent, now: float) -> Any:
    if stored is not None and request.key in stored.record.intents:
        intents = {key: done for key, done in stored.record.intents.items() if key != request.key}
        blind = Stored(replace(stored.record, intents=intents), stored.journal)
        after, reply = _RIGHT_INTENT(blind, request, now)
        return (after if after is not blind else stored), reply
    return _RIGHT_INTENT(stored, request, now)


def claims_anything(stored: Stored | None, request: Claim, now: float) -> Any:
    if stored is not None and stored.record.state is RecordState.OPEN:
        own = request.evidence is Evidence.OWNER and stored.record.owner == request.owner
        evidence = request.evidence if own else Evidence.GONE
        request = replace(request, seen=stored.record.seen, evidence=evidence)
    return _RIGHT_CLAIM(stored, request, now)


def claims_unmarked(stored: Stored | None, request: Claim, now: float) -> Any:
    if stored is None:
        return _RIGHT_CLAIM(stored, request, now)
    head = stored.record.head
    marked = replace(stored, record=replace(stored.record, head=replace(head, reentrant=True)))
    after, reply = _RIGHT_CLAIM(marked, replace(request, reentrant=True), now)
    if reply.verdict is not Verdict.OK or after is None:
        return stored, reply
    # What the head says is sealed: it stays.
    taken = replace(after, record=replace(after.record, head=replace(head, boot=request.boot)))
    return taken, replace(reply, stored=taken)


def revives(stored: Any, wanted: Any, acknowledged: int, ttl: float, now: float) -> Any:
    return wanted, lease.Renewal.RENEWED


def taken_by_what_was_found(case: lease.LeaseCase) -> bool:
    """The lease that a new process finds first ends it, if the store's clock is set back."""
    return bool(_RIGHT_IS_TAKEN.fget(replace(case, found=None)))


def gives_its_name_up(member: Membership, over: bytes) -> None:
    """A node that has lapsed deletes what is left of its lease, and registers with its next heartbeat."""
    if over:
        member._process.world.store.lapse(member.lease.node)
        member._rest()
    else:
        _RIGHT_BEAT(member, over)


def heard_as_it_comes(cursor: replay.Cursor) -> tuple[Entry, ...]:
    """The result of an effect is given when the handler has come to that effect: of several, the last one first."""
    for at in range(len(cursor._deliveries) - 1, cursor._given - 1, -1):
        item = cursor._deliveries[at][0]
        if item.kind is not EntryKind.ANSWER and (EntryKind.INTENT, item.key, 0) in cursor._met:
            cursor._deliveries.insert(cursor._given, cursor._deliveries.pop(at))
            cursor._given += 1
            return (item,)
    return _RIGHT_READY(cursor)


def heard_too_early(cursor: replay.Cursor) -> tuple[Entry, ...]:
    """Nothing waits for what was recorded before it."""
    cursor._ahead = []
    return _RIGHT_READY(cursor)


def never_in_doubt(cursor: replay.Cursor, *args: Any) -> Any:
    found = _RIGHT_ONCE(cursor, *args)
    return replay.Once.LIVE if found is replay.Once.NO_RESULT else found


def hasty_evidence(sight: Sight) -> Evidence | None:
    """An owner that lives, and never lapsed, is thought gone."""
    assert sight.stored is not None
    record_ = sight.stored.record
    owner = sight.leases.get(NodeId(record_.owner))
    alive = owner is not None and owner.inc == record_.incarnation and record_.owner != sight.me.node
    return Evidence.GONE if alive else _RIGHT_EVIDENCE(sight)


def asks_anybody(call: Call, event: Retry, now: float) -> Move:
    """A frame asks its questions again, whoever owns the call by now."""
    return Move(call, (Respond(event.waiter, questions(call, now)),))


def any_window(call: Call, write: Write, packed: writes.Packed, reply: Reply, held: Lease, now: float) -> Event:
    """The window of any incarnation is good for each frame."""
    return _RIGHT_EVENT(
        call, write, packed, reply, replace(held, incarnation=write.incarnation or call.incarnation), now
    )


def unverified(call: Call, event: Renewed, now: float) -> Move:
    """Under another incarnation the frame goes on as it is."""
    return _RIGHT_RENEWED(replace(call, incarnation=event.lease.incarnation), event, now)


def heedless(call: Call, write: Write, event: Acked) -> tuple[Call, tuple[Effect, ...]]:
    """The window is not looked at between an intent's acknowledgement and its effect."""
    return _RIGHT_TELL_HANDLER(call, write, replace(event, is_open=True))


def lapse_is_death(sight: Sight) -> Evidence | None:
    assert sight.stored is not None
    record_ = sight.stored.record
    owner = sight.leases.get(NodeId(record_.owner))
    is_open = record_.state is RecordState.OPEN and record_.owner != sight.me.node
    return Evidence.GONE if is_open and (not owner or owner.inc != record_.incarnation) else _RIGHT_EVIDENCE(sight)


def blind_to_a_release(sight: Sight) -> Evidence | None:
    """What was handed off is nobody's to take."""
    assert sight.stored is not None
    return None if sight.stored.record.state is RecordState.RELEASED else _RIGHT_EVIDENCE(sight)


def never_behind(stored: Stored | None, fence: Fence, resulting: str | None, creates: bool) -> Verdict:
    """A store that went back is written to as if it had not."""
    verdict = _RIGHT_FENCE(stored, fence, resulting, creates)
    return Verdict.OK if verdict is Verdict.BEHIND and stored is not None else verdict


def released_is_over(stored: Stored | None, fence: Fence, resulting: str | None, creates: bool) -> Verdict:
    """What was handed off once is another's for ever, also where the store forgot who took it."""
    if stored is not None and stored.record.state is RecordState.RELEASED:
        return Verdict.FENCED
    return _RIGHT_FENCE(stored, fence, resulting, creates)


def sealed_anew(scripts: Scripts, slot: Slot, write: Write) -> None:
    slot.attempt = None
    _RIGHT_WRITE(scripts, slot, write)


def counts_late(scripts: Scripts, slot: Slot, attempt: Attempt) -> bool:
    """A reply counts though its write was given up, and is sent again."""
    return slot.attempt is attempt and slot.call.outbox.in_flight is attempt.write


def lasts_anew(call: Call, now: float) -> Questions:
    """Each token of a round is good for as long as the first."""
    return Questions(call.round, call.epoch, call.position, call.round_history, call.ttl)


def guesses(call: Call, event: Found, now: float) -> Move:
    """A token without a record begins the call anew."""
    if event.stored is None and not event.elsewhere:
        return Move(replace(call, phase=Phase.RUNNING, waiting=call.undecided, undecided=()), (Run(call.epoch),))
    return takeover.found(call, event, now)


def evicts_anything(call: Call, event: Evict, now: float) -> Move:
    """Also in the middle of an effect."""
    return drop_and_forget(call, event.cause) if call.reentrant else Move(call)


def stops_anything(call: Call, event: Stop, now: float) -> Move:
    """The same, where an operator ends the call."""
    return rounds.finished(call, Finished(event.outcome, event.ending), now)


def says_all_is_well(stored: Stored | None, request: Finish, now: float) -> record.Applied:
    """However a call ended, its record calls it completed."""
    return _RIGHT_FINISH(stored, replace(request, ending=COMPLETED), now)


def calls_again(client: Client) -> None:
    client._starts = 0
    _RIGHT_START(client)


def repeats_anything(
    world: World, source: str, target: str, act: Callable[..., None], *args: Any, repeatable: bool = True
) -> None:
    _RIGHT_SEND(world, source, target, act, *args)


def half_is_enough(call: Call, case: retry.RetryCase, now: float) -> Move:
    given = {answer.key for answer in case.usable}
    return _RIGHT_ACCEPT(replace(call, asks=tuple(ask for ask in call.asks if ask.key in given)), case, now)


def asks_anytime(frame: Frame, phase: Phase, round_: int) -> Event | None:
    """An ask that arises while no exchange is open opens a round of its own."""
    parked = phase is Phase.PARKED and not frame.rebuilding
    return _RIGHT_NEXT(frame, Phase.RUNNING if parked else phase, round_)


def _attempts(script: type[Claim] | type[Commit]) -> Callable[..., Any]:
    """Claim or commit, with the count of attempts as it was."""
    right = record._SCRIPTS[script]

    def wrong(stored: Stored | None, request: Any, now: float) -> Any:
        after, reply = right(stored, request, now)
        if reply.verdict is not Verdict.OK or after is None or stored is None:
            return after, reply
        same = Stored(replace(after.record, attempts=stored.record.attempts), after.journal)
        return same, replace(reply, stored=same if reply.stored else None)

    return wrong


def passes_on_anything(process: Process, effect: Relay, offered: bool) -> None:
    item = process.open.get(effect.waiter)
    if item is not None:
        process.open[effect.waiter] = item._replace(origin=None)
    _RIGHT_RELAY(process, effect, offered)


uncounted_claim, unforgiving_commit = _attempts(Claim), _attempts(Commit)

_RIGHT_EVENT, _RIGHT_RENEWED, _RIGHT_TELL_HANDLER = writes.event, recovery.renewed, rounds._tell_handler
_RIGHT_EVIDENCE, _RIGHT_RELAY, _RIGHT_FENCE = ownership.evidence_of, Process.relay, record.check_fence
_RIGHT_START, _RIGHT_SEND, _RIGHT_ACCEPT = Client._start, World.send, rounds._accept
_RIGHT_NEXT, _RIGHT_WRITE, _RIGHT_BEAT = Frame.next_event, Scripts.write, Membership._beat
_RIGHT_INTENT, _RIGHT_CLAIM, _RIGHT_FINISH = (record._SCRIPTS[kind] for kind in (Intent, Claim, Finish))
_RIGHT_RESULT = record._SCRIPTS[Result]
_RIGHT_IS_TAKEN = vars(lease.LeaseCase)["is_taken"]
_RIGHT_READY = replay.Cursor.ready
_RIGHT_ONCE, _RIGHT_MEET, _RIGHT_EFFECT = replay.Cursor.once, replay.Cursor._meet, Driver._begin_effect
