"""The core, broken on purpose: each mutation takes one rule of docs/protocol.md away by replacing a function or a row.

`RED` must turn the simulation red within a bounded number of schedules. `MASKED` stay green alone, for the reason that
stands beside each; where a pair breaks, the pair is in `RED`. `ELSEWHERE` names the tests of what no schedule can show.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from framehold_core import call as calls
from framehold_core import (
    continuation,
    lease,
    missing_nodes,
    outbox,
    ownership,
    pauses,
    record,
    recovery,
    replay,
    retry,
    rounds,
    suspects,
    takeover,
    writes,
)
from framehold_core.call import Move, Phase
from framehold_core.events import (
    Asked,
    Evict,
    Expired,
    Finished,
    Found,
    Intended,
    Recheck,
    Renewed,
    Retry,
    Stop,
    StoreDown,
    WriteRefused,
)
from framehold_core.requests import Claim, Commit, Finish, Heal, Intent, Release, Result, Verify

from . import broken, node, scripts, seals
from .clients import Client
from .driver import Driver
from .edits import Patch, edited, fence, function, not_found, row, rows, script, tenure
from .handlers import Frame
from .membership import Membership
from .node import Process
from .scripts import Scripts, Slot
from .seals import Seals
from .world import World


class Mutation(NamedTuple):
    """What is broken: a rule of docs/protocol.md by its number, else a section by its anchor, or an invariant."""

    rule: str
    patches: tuple[Patch, ...]


_SCRIPTS, _TABLE = record._SCRIPTS, continuation.TABLE
_ASKED, _FINISHED, _EVICT = (Phase.RUNNING, Asked), (Phase.RUNNING, Finished), (Phase.PARKED, Evict)
_LEAVING, _KEPT_BACK = (Phase.RELEASING, Retry), (Phase.RELEASING, WriteRefused)
_FOUND, _LATE = (Phase.LOOKING, Found), (Phase.PARKED, Asked)


def without(when: str) -> Mutation:
    """The ownership table without one row."""
    rows = tuple(row for row in ownership.ROWS if row.when != when)
    assert len(rows) + 1 == len(ownership.ROWS), f"there is no row {when!r}"
    return Mutation("ownership-table", ((ownership, "ROWS", rows),))


def _anything(check: str) -> Patch:
    """One check of seals that believes all that it is shown."""
    return Seals, check, lambda *_: True


def _uncovered(field: str) -> tuple[Patch, ...]:
    """A seal of heads, and so a name of heads, that leaves one field out."""
    return ((seals, "covered", edited(seals.covered, "boot=_NOBODY", f"boot=_NOBODY, {field}")),)


def _said(believed: str) -> tuple[Patch, ...]:
    """A reader that believes some of what a record says of its journal."""
    return ((writes, "read", edited(writes.read, "zip(_SAID, said", f"zip(_SAID, {believed}")),)


_NEVER_IN_DOUBT = function(replay.Cursor, "once", "Once.NO_RESULT", "Once.LIVE")
_INTENT_AGAIN = script(Intent, " or (record is not None and request.key in record.intents)", "")
RED: dict[str, Mutation] = {
    "gate-off": Mutation("1", row(_ASKED, broken.ungated_questions)),
    "finish-gate-off": Mutation("1", row(_FINISHED, broken.ungated_outcome)),
    # The window mostly saves work, but it also bounds rule 1's exception, and that is what turns red.
    "window-off": Mutation("1", ((lease, "is_open", lambda *_: True),)),
    "answers-not-carried": Mutation("2", ((rounds, "unsent_answers", lambda _: None),)),
    "answers-not-with-the-intent": Mutation("2", rows(Intended, broken.answers_left_behind)),
    "digest-off": Mutation(
        "2",
        (
            (retry, "ROWS", tuple(row for row in retry.ROWS if row.then is not retry.Decision.CONFLICT)),
            (record, "_clashes", lambda *_: False),
        ),
    ),
    "verify-keeps-epoch": Mutation("3", script(Verify, "epoch=fence.epoch + 1, exp", "epoch=fence.epoch, exp")),
    "claim-keeps-epoch": Mutation("3", script(Claim, "epoch=record.epoch + 1,", "epoch=record.epoch,")),
    "window-of-another-incarnation": Mutation("4", ((writes, "event", broken.any_window),)),
    # Whoever claimed meanwhile raised the epoch. But a store that went back is not noticed by its leases.
    "lapse-ignored": Mutation("4", ((lease, "renew", lambda _, wanted, *__: (wanted, lease.Renewal.RENEWED)),)),
    "verify-skipped": Mutation("4", ((rounds, "_ask_store_first", lambda *_: None),)),
    "lapsed-frame-goes-on": Mutation(
        "4",
        rows(
            Renewed,
            edited(
                recovery.renewed,
                "    if call.inc",
                "    call = replace(call, incarnation=event.lease.incarnation)\n    if call.inc",
            ),
        ),
    ),
    "lapse-taken-for-death": Mutation("5", ((ownership, "evidence_of", broken.lapse_is_death),)),
    # Claims from an owner that lives: its window is open, so an effect that it was let go for runs after its successor
    # has recorded it. The epoch fences its writes, but nothing fences an effect.
    "owner-thought-gone": Mutation("5", ((ownership, "evidence_of", broken.hasty_evidence),)),
    "effect-outside-the-window": Mutation(
        "6",
        function(
            rounds,
            "_tell_handler",
            "    if write.op is Op.RES",
            "    event = replace(event, is_open=True)\n    if write.op is Op.RES",
        ),
    ),
    "asked-again-outside-the-window": Mutation(
        "6", function(rounds, "_ask_again", "return first or Move", "return Move")
    ),
    "behind-taken-for-current": Mutation("7", ((record, "check_fence", broken.never_behind),)),
    "heals-what-another-has-ended": Mutation("7", function(recovery, "_heal", "may_have_ended or ", "")),
    "released-without-healing": Mutation("7", row(_KEPT_BACK, recovery.released)),
    "not-healed-at-notice": Mutation("7", rows(Recheck, continuation.ignore)),
    "released-is-over": Mutation(
        "7", fence("if record.is_over:", "if record.is_over or record.state is RecordState.RELEASED:")
    ),
    "healed-under-a-later-incarnation": Mutation(
        "7", function(recovery, "_heal", "None if within else write.incarnation", "write.incarnation")
    ),
    "heal-carries-unwritten-answers": Mutation(
        "2", function(writes, "_heal", "is not None and carried else", "is not None else")
    ),
    "effect-cut-by-an-operator": Mutation(
        "8", rows(Stop, edited(_TABLE[Phase.PARKED, Stop].move, "if call.intents or", "if False and"))
    ),
    "shield-off": Mutation("8", ((rounds, "effect_under_way", lambda _: False),)),
    "released-though-unanswered": Mutation(
        "8",
        (
            (
                _TABLE,
                (Phase.RELEASING, StoreDown),
                continuation.TransitionRow(recovery.released, (Phase.IDLE, Phase.LOOKING)),
            ),
        ),
    ),
    "evicted-in-an-effect": Mutation(
        "8",
        row(
            _EVICT,
            edited(
                recovery.evicted,
                "may_be_dropped(call) else flushed(call, Flush(), now)",
                "call.reentrant else Move(call)",
            ),
        ),
    ),
    "expired-in-an-effect": Mutation("8", rows(Expired, edited(recovery.expired, " or effect_under_way(call)", ""))),
    "dropped-forgets-who-came": Mutation(
        "8",
        ((recovery, "drop_frame", edited(calls.drop_frame, ", undecided=call.undecided", "")),),
    ),
    "leaving-forgets-who-came": Mutation("8", row(_LEAVING, continuation.ignore)),
    "first-request-repeated": Mutation("9", function(World, "send", "elif repeatable:", "else:")),
    "not-taken-though-it-began": Mutation(
        "9",
        row(
            (Phase.PARKING, StoreDown),
            edited(recovery.write_unanswered, "(call.waiting, Reason.UNAVAILABLE", "(call.waiting, Reason.NOT_TAKEN"),
        ),
    ),
    "called-again-under-its-id": Mutation("9", function(Client, "_start", "self._starts += 1", "pass")),
    "half-of-the-answers-is-enough": Mutation("10", ((rounds, "_accept", broken.half_is_enough),)),
    "asked-while-nobody-listens": Mutation(
        "11",
        (
            *function(Frame, "next_event", "phase is Phase.RUNNING:", "phase in (Phase.RUNNING, Phase.PARKED):"),
            (_TABLE, _LATE, _TABLE[_ASKED]),
        ),
    ),
    "changed-text-accepted": Mutation(
        "12", function(replay.Cursor, "_meet", "owed is not None and owed.fp != fingerprint", "False")
    ),
    "end-before-the-record-accepted": Mutation(
        "12", ((replay.Cursor, "finish", lambda _: None), (replay.Cursor, "live", True))
    ),
    "recorded-order-lost": Mutation("12", ((replay.Cursor, "ready", broken.heard_as_it_comes),)),
    "heard-before-what-came-first": Mutation(
        "12", function(replay.Cursor, "ready", "    found = self", "    self._ahead = []\n    found = self")
    ),
    "effect-before-intent": Mutation("13", row((Phase.RUNNING, Intended), broken.hasty_effect)),
    "result-before-effect": Mutation("13", ((Driver, "_begin_effect", broken.result_first),)),
    "doubt-forgotten": Mutation("13", (*_NEVER_IN_DOUBT, *_INTENT_AGAIN)),
    "result-dropped-before-a-park": Mutation("13", row(_ASKED, broken.drops_results)),
    "park-overtakes-a-result": Mutation("13", row(_ASKED, broken.parks_before_results)),
    "result-counts-after-a-lapse": Mutation("13", ((_SCRIPTS, Result, broken.result_of_anybody),)),
    "dropped-while-a-result-is-owed": Mutation(
        "8", function(recovery, "may_be_dropped", "not call.intents", "len(call.intents) == len(call.owed)")
    ),
    "notified-before-the-result": Mutation("13", function(Driver, "_say", "if frame.owed:", "if False:")),
    "ungated-before-the-result": Mutation(
        "1", row((Phase.FINISHING, StoreDown), edited(recovery.write_unanswered, " and not write.results", ""))
    ),
    "effect-before-its-answers": Mutation(
        "2",
        ((rounds, "_run_without_intent", lambda call, event: Move(*rounds._let_run(call, event.key, event.is_open))),),
    ),
    "effect-before-what-was-learned": Mutation(
        "2",
        function(rounds, "_run_without_intent", "call.notes or ", ""),
    ),
    "late-retry-decided-early": Mutation(
        "5",
        (
            (takeover, "_came_since", lambda *_: False),
            *function(Scripts, "_found", "waiting=waiting,", "waiting=slot.call.undecided,"),
        ),
    ),
    "kept-code-ignored": Mutation("28", ((Scripts, "_is_kept", lambda *_: False),)),
    "very-code-passed-over": Mutation("28", ((ownership, "_serving", lambda _: None),)),
    "heal-names-the-present-code": Mutation(
        "28", function(Slot, "load", "process.boot)", "process.boot, code=self.process.code_of(self.tool))")
    ),
    "attempts-not-counted": Mutation("15", script(Claim, " + has_died(record, request.evidence, request.boot)", "")),
    "attempts-never-forgiven": Mutation("15", script(Commit, ", attempts=0", "")),
    "nobody-is-blamed": Mutation("27", ((pauses, "is_blamed", lambda _: False),)),
    "nobody-is-suspected": Mutation("27", ((ownership, "is_suspect", lambda *_: False),)),
    "suspects-enter-together": Mutation("27", ((suspects.Suspects, "has_turn", lambda *_: True),)),
    "claim-ignores-the-mark": Mutation("16", ((_SCRIPTS, Claim, broken.claims_unmarked),)),
    "record-dies-before-its-token": Mutation("17", ((scripts, "SKEW", -2.0),)),
    "asked-again-for-a-whole-life": Mutation("17", function(rounds, "questions", "call.expires - now", "call.ttl")),
    "token-without-a-record-begins-anew": Mutation(
        "17", ((_TABLE, _FOUND, continuation.TransitionRow(broken.guesses, (*_TABLE[_FOUND].to, Phase.RUNNING))),)
    ),
    "ending-not-kept": Mutation("ending", ((_SCRIPTS, Finish, broken.says_all_is_well),)),
    "relayed-twice": Mutation("19", function(Process, "relay", "if item.origin is not None:", "if False:")),
    "relayed-without-end": Mutation("19", ((node, "MAX_RELAYS", 99),)),
    "sealed-anew": Mutation("20", function(Scripts, "write", "last = slot.attempt", "last = None")),
    "late-reply-counts": Mutation("20", function(Scripts, "_live", " and not call.outbox.stalled", "")),
    "sent-beside-another": Mutation(
        "20", ((outbox.Outbox, "send", edited(outbox.Outbox.send, "self.in_flight is None", "True")),)
    ),
    "healer-not-waited-for": Mutation("25", ((missing_nodes.MissingNodes, "is_certain", lambda *_: True),)),
    "absence-believed": Mutation("25", ((lease.Tenure, "believes_absences", lambda *_: True),)),
    "name-given-up-by-a-lapse": Mutation("4", ((Membership, "_beat", broken.gives_its_name_up),)),
    "absence-believed-after-a-silence": Mutation("25", ((lease.Tenure, "silent", lambda _: None),)),
    "absence-believed-after-a-lapse": Mutation(
        "25", tenure("heard", "self._doubt(now)\n    self.begin", "self.doubts += 1\n    self.begin")
    ),
    "nothing-compared-after-a-lapse": Mutation("7", tenure("_doubt", "self.doubts += 1", "")),
    "lower-beat-renews": Mutation(
        "7", function(lease, "renew", "not acknowledged <= stored.beat <", "not stored.beat <")
    ),
    "same-incarnation-after-a-lapse": Mutation(
        "4", tenure("begin_anew", "incarnation=Incarnation(self._fresh()), ", "")
    ),
    "claims-before-it-is-registered": without("it may be claimed and is not over, and this node is not registered"),
    "window-counts-from-the-reply": Mutation("6", tenure("heard", "reply.at, started)", "reply.at, now)")),
    "goes-on-under-a-taken-name": Mutation("4", not_found(lease.LeaseFinding.TAKEN)),
    "former-life-not-waited-for": Mutation("4", not_found(lease.LeaseFinding.HELD)),
    "former-life-ends-the-next": Mutation(
        "4", ((lease.LeaseCase, "is_taken", property(broken.taken_by_what_was_found)),)
    ),
    "own-lease-is-enough": Mutation("25", ((lease, "proves_absences", lambda own, *_: own is not None),)),
    "both-fences-off": Mutation(
        "fence", ((record, "check_fence", broken.blind_fence("owner", "incarnation", "epoch")),)
    ),
    "position-off": Mutation("fence", ((record, "check_fence", broken.blind_fence("position")),)),
    "healer-row-off": without("a token is beyond the record, and its node may live"),
    "absence-row-off": without("its owner is gone, and a missing lease proves nothing"),
    "code-row-off": without("nobody runs it, and a live node serves the code that it began with"),
    "death-row-off": without("its process is gone, and that is not held against its tool yet"),
    "pause-row-off": without("its process is gone, and its tool is paused"),
    "suspect-row-off": without("it is a suspect, and others are before it"),
    "released-call-left-alone": Mutation(
        "each-script", function(ownership, "evidence_of", "return Evidence.RELEASED", "return None")
    ),
    "no-second-asking": Mutation(
        "retry-table", ((retry, "ROWS", tuple(r for r in retry.ROWS if r.when != "r = R - 1")),)
    ),
    "boundary-off": Mutation("I8", ((Process, "lets_in", lambda *_: True),)),
    "no-room-ignored": Mutation("I9", ((Driver, "make_room", lambda _: True),)),
    "claim-granted-twice": Mutation("each-script", script(Claim, " and record.epoch == request.seen.epoch + 1", "")),
    "release-granted-to-anybody": Mutation(
        "each-script",
        script(Release, " and (record.epoch, record.position) == (fence.epoch, fence.position)", ""),
    ),
    "one-attempt-too-many": Mutation("15", script(Claim, "record.attempts >= request", "record.attempts > request")),
    "ended-call-takes-writes": Mutation("fence", fence("record.is_over", "False")),
    "behind-by-half": Mutation("fence", fence("lower and not higher", "lower")),
    "repeat-unknown": Mutation("fence", fence("resulting is not None and record.history == resulting", "False")),
    # Either finds what the other one would: the pair shows that something must.
    "head-of-anybody": Mutation("29", (_anything("is_head"), (takeover, "is_of", lambda *_: True))),
    "head-of-another-call": Mutation(
        "29", ((seals, "covered", edited(seals.covered, "(call, ", "(0, ")), (takeover, "is_of", lambda *_: True))
    ),
    "cut-record-entered": Mutation("29", ((takeover, "_was_cut", lambda *_: False),)),
    "code-not-sealed": Mutation("29", _uncovered('code=""')),
    "entry-of-anybody": Mutation("29", (_anything("is_entry"),)),
    "outcome-of-anybody": Mutation("29", (_anything("is_outcome"),)),
    "done-without-an-outcome": Mutation(
        "29",
        function(takeover, "_from_record", "=record.outcome", "=record.outcome or None"),
    ),
    "record-believed": Mutation("29", _said("found")),
    "round-of-a-record-believed": Mutation("29", _said("(said[0], found[1], *said[2:])")),
    "answers-of-a-record-believed": Mutation("29", _said("(*said[:2], found[2], said[3])")),
    "effects-of-a-record-believed": Mutation("29", _said("(*said[:3], found[3])")),
    "lease-of-anybody": Mutation("29", (_anything("is_lease"),)),
    # Whoever starts again under the name asks for the end by itself: the pair shows that somebody must.
    "lease-beyond-its-end": Mutation(
        "29",
        (
            (Seals, "is_current", edited(Seals.is_current, " and item.expires > now", "")),
            (lease, "ends_this_process", edited(lease.ends_this_process, "stored.expires > now and ", "")),
            (lease.LeaseCase, "is_held", property(lambda case: None not in (case.found, case._of_another))),
        ),
    ),
    "lease-of-another-name": Mutation("29", function(Seals, "holds", "item.node == name and ", "")),
    "name-taken-by-anybody": Mutation(
        "29", ((lease.LeaseCase, "is_taken", property(lambda case: case.reply.result is lease.Renewal.TAKEN)),)
    ),
    "name-taken-by-an-older-lease": Mutation(
        "29", ((lease, "ends_this_process", lambda found, _since, _ttl, now: found.expires > now),)
    ),
}
"""Mutations that must be found."""

MASKED: dict[str, tuple[str, Mutation]] = {
    "mark-not-sealed": (
        "the code that is entered has its own mark, and code without one is not kept",
        Mutation("29", _uncovered("reentrant=True")),
    ),
    "epoch-fence-off": (
        "the owner fence and the position refuse the same writes",
        Mutation("fence", ((record, "check_fence", broken.blind_fence("epoch")),)),
    ),
    "owner-fence-off": (
        "each change of owner raises the epoch",
        Mutation("fence", ((record, "check_fence", broken.blind_fence("owner", "incarnation")),)),
    ),
    "withheld-for-good": (
        "the round overruns, and whoever rebuilds it runs the effect or is in doubt",
        Mutation("6", rows(Renewed, continuation.ignore)),
    ),
    "claim-of-anything": (
        "the claim still raises the epoch, so the loser is fenced; only work is lost",
        Mutation("5", ((_SCRIPTS, Claim, broken.claims_anything),)),
    ),
    "went-back-row-off": (
        "a frame that the store lost heals, and whoever claimed its call is fenced; only work is lost",
        without("it may be claimed, and the store went back lately"),
    ),
    "claims-after-the-store-went-back": (
        "a missing lease proves nothing meanwhile, and who claims a released call is fenced; only work is lost",
        Mutation("7", ((lease.Tenure, "claims", lambda *_: True),)),
    ),
    "not-said-to-have-gone-back": (
        "as `claims-after-the-store-went-back`",
        Mutation("7", not_found(lease.LeaseFinding.WENT_BACK)),
    ),
    "not-said-to-be-foreign": (
        "what is not this process's is registered over in any case; only claims are held back without need",
        Mutation("4", not_found(lease.LeaseFinding.FOREIGN)),
    ),
    "overwritten-row-off": (
        "the owner that lives is fenced by the claim; only work is lost",
        without("its owner is gone, and something else stands in the place of its lease"),
    ),
    "draining-node-claims": (
        "what it claims it hands off again, or its successor claims once its lease is given back; only work is lost",
        without("it is another node's, and this node drains"),
    ),
    "doubt-live": (
        "the store refuses the second intent",
        Mutation("13", _NEVER_IN_DOUBT),
    ),
    # ---- one condition of a script each; tests/core/test_record.py and tests/store/test_contract.py hold it by itself
    "commit-of-any-round": (
        "each commit appends an entry, so a position belongs to one round",
        Mutation("each-script", script(Commit, "record.round != request.fence.round", "False")),
    ),
    "other-answers-accepted": (
        "who passes the fence has recorded the answers itself, or has read them with its claim",
        Mutation("each-script", ((record, "_clashes", lambda *_: False),)),
    ),
    "intent-granted-twice": (
        "whoever replays the journal knows of the first one (`doubt-forgotten` takes both away)",
        Mutation("each-script", _INTENT_AGAIN),
    ),
    "result-granted-twice": (
        "a result is carried once, behind its intent, and from a position of its own",
        Mutation("each-script", ((record, "_is_unfit", lambda *_: False),)),
    ),
    "finish-granted-to-anybody": (
        "no two outcomes have the same seal",
        Mutation("each-script", script(Finish, "same and ", "")),
    ),
    "finish-of-any-outcome": (
        "a frame ends once",
        Mutation("each-script", script(Finish, " and record.outcome == request.outcome", "")),
    ),
    "claim-granted-to-any-process": (
        "another process of the same name reads the record before it claims, and finds another epoch",
        Mutation("each-script", script(Claim, "OPEN and mine and", "OPEN and record.owner == request.owner and")),
    ),
    "verify-granted-anywhere": (
        "nobody but the frame itself raises a record to that epoch under that incarnation",
        Mutation(
            "each-script", script(Verify, "record.epoch, record.position) == wanted", "record.epoch) == wanted[:3]")
        ),
    ),
    "heal-keeps-epoch": (
        "what a frame sent before its heal is what it sends again, and whoever else wrote raised the epoch",
        Mutation("each-script", script(Heal, "fence.epoch + 1", "fence.epoch")),
    ),
    "heal-of-what-was-not-read": (
        "the fence of the heal is BEHIND only where nobody else went on",
        Mutation("each-script", script(Heal, "(stored.record.seen if stored else None) != request.seen", "False")),
    ),
}
"""Mutations that something else makes up for, and what that is."""

ELSEWHERE = {
    # Strategy replay keeps its journal in the token, and the record is made from it by the node: schedules play hold.
    "14": ("tests/node/engine/test_token_record.py::test_an_older_token_branches_the_history",),
    # The present code's half of the promise: nothing marks or unmarks a handler in a schedule.
    "16": ("tests/core/test_record.py::test_re_entry_needs_both_promises_and_its_loss_is_written_first",),
    # Headers, seals and pickles: a simulated request is a value, and what it says of itself is not text.
    "18": (
        "tests/router/test_relay.py::test_internal_headers_of_a_client_never_get_past",
        "tests/node/http/test_bad_requests.py::test_internal_headers_of_a_client_are_ignored",
        "tests/node/engine/test_unreadable.py::test_a_journal_that_was_spoiled",
    ),
    # A client of 2025 has a session and no call: no record, no lease of a call, nothing that a step could change.
    "21": ("tests/node/http/test_relay.py::test_a_session_outlives_a_lapse",),
    # A simulated value has a nonce and no seal, and nobody writes the store but its scripts.
    "22": (
        "tests/node/engine/test_unreadable.py::test_a_journal_that_was_spoiled",
        "tests/store/test_seal.py::test_a_value_can_not_be_moved",
    ),
    # What a draining node claims it hands off again: `draining-node-claims` is masked.
    "23": ("tests/node/engine/test_drain.py::test_new_calls_and_handed_off_ones_are_passed_on",),
    # A turn of the simulated clock costs nothing, so no crowd can hold one up.
    "24": (
        "tests/node/http/test_exchange.py::test_a_crowd_goes_through_a_few_at_a_time_and_in_order",
        "tests/node/engine/test_takeover_gate.py::test_so_many_at_once_and_the_others_in_order",
    ),
    # An operator is nobody's client: whether a cancelled call has an outcome is seen by who asks for it later.
    "26": ("tests/core/test_stopped.py::test_a_parked_call_that_is_stopped_ends_at_once_and_for_good",),
}
"""Rules, or halves of them, that lie outside of what is simulated, and the tests that hold them."""


@contextmanager
def mutated(name: str | None) -> Iterator[None]:
    """Run with one mutation."""
    patches = () if name is None else (RED[name] if name in RED else MASKED[name][1]).patches
    undo: list[Patch] = []
    for place, key, value in patches:
        undo.append((place, key, place.get(key) if isinstance(place, dict) else getattr(place, key)))
        _put(place, key, value)
    try:
        yield
    finally:
        for place, key, value in undo:
            _put(place, key, value)


def _put(place: Any, key: Any, value: Any) -> None:
    if isinstance(place, dict) and value is None:
        del place[key]
    elif isinstance(place, dict):
        place[key] = value
    else:
        setattr(place, key, value)
