"""Who is told what happens to the calls of a node: metrics, the chronicle, traces.

The law: a watch only looks. Nothing of a call rests on it; what it raises is logged, and the call goes on. What nobody
watches costs nothing: each kind of news goes only to those who want it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_core.errors import StoreUnavailable
from framehold_core.requests import Reply

from .slots import Answer, Slot

logger = logging.getLogger(__name__)

NEWS = ("stepped", "answered", "turned_away", "dropped", "asked_store", "renewed", "happened")


class Watch:
    """Override what you want to hear of; each runs within the step that it tells of, so it must be quick."""

    def stepped(self, slot: Slot, was: Phase, event: ev.Event, effects: Sequence[fx.Effect]) -> None:
        """A call that was in phase `was` has taken a step; its effects are performed."""

    def answered(self, slot: Slot, event: ev.Start | ev.Retry, answer: Answer | None, seconds: float) -> None:
        """A request has its reply, `seconds` after it came; None where its client left, or its answers were
        malformed."""

    def turned_away(self, tool: str) -> None:
        """A call was refused before there was anything of it here: a limit was met."""

    def dropped(self, slot: Slot, cause: str) -> None:
        """A frame was cancelled, evicted or let go."""

    def asked_store(self, op: str, slot: Slot | None, reply: Reply | StoreUnavailable, seconds: float) -> None:
        """The store has answered one request, or has not. `op` is what was asked: commit, intent, result, finish,
        claim, verify, heal, release, read, or renew and register, of the node's own lease: ok, missing where it
        lapsed, conflict where another has the name."""

    def renewed(self, ok: bool) -> None:
        """A heartbeat was answered (`ok`), or not."""

    def happened(self, kind: str, text: str, slot: Slot | None = None) -> None:
        """Something that an operator wants to know: `kind` is one of `framehold_router.api.about_events.Kind`."""


class Watches:
    """All watches of one node, told in the order in which they came. Each attribute is a function that tells one kind
    of news."""

    stepped: Callable[[Slot, Phase, ev.Event, Sequence[fx.Effect]], None]
    answered: Callable[[Slot, ev.Start | ev.Retry, Answer | None, float], None]
    turned_away: Callable[[str], None]
    dropped: Callable[[Slot, str], None]
    asked_store: Callable[[str, Slot | None, Reply | StoreUnavailable, float], None]
    renewed: Callable[[bool], None]
    happened: Callable[..., None]

    def __init__(self) -> None:
        self._watches: list[Watch] = []
        for news in NEWS:
            setattr(self, news, _nobody)

    def add(self, watch: Watch) -> None:
        """Tell `watch` from now on."""
        self._watches.append(watch)
        for news in NEWS:
            told = tuple(getattr(each, news) for each in self._watches if _wants(each, news))
            if told:
                setattr(self, news, _telling(told))


def _wants(watch: Watch, news: str) -> bool:
    return getattr(type(watch), news) is not getattr(Watch, news)


def _nobody(*news: Any) -> None:
    """Nobody wants to know."""


def _telling(watches: tuple[Callable[..., None], ...]) -> Callable[..., None]:
    def tell(*news: Any) -> None:
        for told in watches:
            try:
                told(*news)
            except Exception:
                logger.exception("a bug in what watches calls; the call that it watched goes on")

    return tell
