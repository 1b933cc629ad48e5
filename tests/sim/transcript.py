"""One line per step, for people."""

from __future__ import annotations

from framehold_core.effects import Deliver, Effect, Outcome, Questions, Refusal, Relay, Respond, Run, Write
from framehold_core.events import Acked, Asked, Diverged, Event, Evict, Found, MayClaim, Retry, Unreadable, WriteRefused


def tell_event(event: Event) -> str:
    """An event in a few words."""
    name = type(event).__name__
    if isinstance(event, Retry):
        given = " ".join(f"{item.key}={item.value.decode()}" for item in event.answers) or "nothing"
        return f"{name}(round {event.round}, epoch {event.epoch}, {given})"
    if isinstance(event, Asked):
        return f"{name}({' '.join(item.key for item in event.asks)})"
    if isinstance(event, Acked):
        return f"{name}(epoch {event.epoch}, n {event.position}{'' if event.is_open else ', window shut'})"
    if isinstance(event, WriteRefused):
        return f"{name}({event.verdict})"
    if isinstance(event, Diverged | Unreadable):
        return f"{name}({event.why})"
    if isinstance(event, Evict):
        return f"{name}({event.cause})"
    if isinstance(event, Found):
        where = "nothing" if event.stored is None else f"epoch {event.stored.record.epoch}"
        return f"{name}({where}, {'claim' if isinstance(event.judged, MayClaim) else 'pass on'})"
    return name


def tell_effects(effects: tuple[Effect, ...]) -> str:
    """What follows, in a few words."""
    return ": " + ", ".join(_effect(effect) for effect in effects) if effects else ""


def _effect(effect: Effect) -> str:
    name = type(effect).__name__
    if isinstance(effect, Write):
        return f"write {effect.op}"
    if isinstance(effect, Respond):
        return f"reply {_answer(effect.response)}"
    if isinstance(effect, Run):
        return f"enter the handler at epoch {effect.epoch} with {len(effect.entries)} entries"
    if isinstance(effect, Relay):
        return f"relay to {effect.node}"
    if isinstance(effect, Deliver):
        return f"deliver {' '.join(f'{item.key}={item.value.decode()}' for item in effect.answers)}"
    return name


def _answer(answer: Questions | Outcome | Refusal) -> str:
    if isinstance(answer, Questions):
        return f"questions of round {answer.round} (epoch {answer.epoch})"
    if isinstance(answer, Outcome):
        return "the outcome"
    return f"refusal: {answer.reason}"
