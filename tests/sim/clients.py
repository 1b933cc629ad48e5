"""Clients: each makes one call, answers what it is asked, and asks again until it knows how the call ended.

A client keeps every token it was ever given, so that it can also misbehave: send a token again, an older one, other
answers, answers to half of the questions, at any node, while its own request is still under way.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from framehold_core import journal
from framehold_core.effects import Reason
from framehold_core.events import Answer

from .plan import LONG, Intent, Mischief
from .tokens import Token, forged, sealed

if TYPE_CHECKING:
    from .world import World

PATIENCE = 0.5
"""Seconds until a client takes a request for lost and sends it again."""

HASTY = 0.05
"""How many retries are hung up on soon."""
SOON = 0.03
"""Seconds within which such a client hangs up, and then comes back."""

FINAL = (Reason.LOST, Reason.STUCK, Reason.FORGOTTEN, Reason.DIVERGED)
"""Refusals after which trying again is no use."""


NAMED = (Reason.UNREADABLE, Reason.CONFLICT, Reason.ALREADY_ANSWERED)
"""Refusals that say why a call does not go on, of which each may be over when it is asked again."""
PATIENT = 3
"""How many of these a client takes of a call that somebody has changed in the store."""


class Request(NamedTuple):
    """One request on its way. `user` is who its connection belongs to, and `hops` how many nodes have passed it on.
    `offered`: it was passed on before to a node that need not have its call."""

    number: int
    client: int
    call: str
    program: str
    reentrant: bool
    token: Token | None
    answers: tuple[Answer, ...]
    user: int
    tries: int = 0
    hops: int = 0
    offered: bool = False


class Said(NamedTuple):
    """A node's reply: a token, an outcome, a refusal, or that the token is `invalid`."""

    token: Token | None = None
    outcome: str | None = None
    refusal: Reason | None = None
    invalid: bool = False


def answer(key: str, value: str) -> Answer:
    """An answer as a node's boundary hands it in."""
    raw = journal.canonical(value)
    return Answer(key, journal.digest(raw), raw)


class Client:
    """One client with one call. `ended` says how it came out."""

    def __init__(self, world: World, number: int, intent: Intent) -> None:
        self.number = number
        self.intent = intent
        self.ended = ""
        self.call = f"c{number}"
        self.tokens: list[Token] = []
        self._world = world
        self._numbers = count(number * 1000)
        self._rng, self._haste = world.stream(f"client {number}"), world.stream(f"haste {number}")
        self._starts, self._asked_at, self._told = 0, 0.0, 0
        self._open: int | None = None
        self._sent: dict[int, list[tuple[Answer, ...]]] = {}
        self._turn: dict[int, int] = {}
        self._at: dict[int, str] = {}
        world.after(intent.at, self._start)

    def _start(self) -> None:
        """Round 1, under a fresh call id (docs/protocol.md, rule 9)."""
        node = self.intent.node if not self._starts else self._rng.choice(self._world.plan.nodes)
        self.call = f"c{self.number}.{self._starts}"
        self._starts += 1
        self._send(node, None, ())

    def _send(
        self, node: str, token: Token | None, answers: tuple[Answer, ...], patient: bool = True, user: int | None = None
    ) -> None:
        number, user = next(self._numbers), self.number if user is None else user
        what = Request(number, self.number, self.call, self.intent.program, self.intent.reentrant, token, answers, user)
        genuine = token is not None and token in self.tokens and user == self.number
        if token is not None and genuine and answers not in self._sent.setdefault(token.round, []):
            self._sent[token.round].append(answers)
        if self._world.lines is not None:
            result = " ".join(f"{item.key}={item.value.decode()}" for item in answers)
            text = f"retries round {token.round} (epoch {token.epoch}) with {result or 'nothing'}" if token else "calls"
            self._world.say(f"client {self.number}", f"{self.call} {text} at {node}")
        if patient:
            self._open, self._asked_at = number, self._world.now
            self._world.after(PATIENCE, self._lose_patience, number)
            if token is not None and self._haste.random() < HASTY:
                self._world.after(self._haste.random() * SOON, self.leave)
        self._at[number] = node
        self._world.send("client", node, self._arrive, node, what, repeatable=token is not None)

    def _arrive(self, node: str, what: Request) -> None:
        process = self._world.nodes[node]
        process.take(process.request, what)

    def _lose_patience(self, number: int) -> None:
        if self._open == number and not self.ended:
            self._go_on()

    def _go_on(self) -> None:
        """Send the newest token again, or call again where there is none yet."""
        if self.ended:
            return
        if not self.tokens:
            self._start()
            return
        token = self.tokens[-1]
        sent = [given for given in self._sent.get(token.round, ()) if any(item.key in token.keys for item in given)]
        answers = sent[self._turn.get(token.round, 0) % len(sent)] if sent else self._answers(token)
        usual = token.node if self._rng.random() < 0.6 else self._rng.choice(self._world.plan.nodes)
        self._send(usual, token, answers)

    def _answers(self, token: Token) -> tuple[Answer, ...]:
        style = self._style(token)
        if style == "none" and len(self._sent.get(token.round, ())) > 0:
            style = "full"
        return self.make(token, style)

    @staticmethod
    def make(token: Token, style: str) -> tuple[Answer, ...]:
        """Answers to a token's questions."""
        word = "no" if style == "other" else "yes"
        full = tuple(answer(key, word) for key in token.keys)
        if style in ("forged", "stolen", "expired"):
            return tuple(answer(key, "no") for key in token.keys)
        if style == "partial":
            return full[:1]
        if style == "none":
            return ()
        return (*full, answer("zz", "extra")) if style == "extra" else full

    def misbehave(self, how: Mischief) -> None:
        """Send something that no patient client would."""
        if len(self.tokens) <= how.back or self.ended:
            return
        token, user = self.tokens[-1 - how.back], self.number
        answers = self.make(token, how.kind)
        self._world.counts["duplicates"] += 1
        if how.kind == "forged":
            token = forged(token, how.back)
        elif how.kind == "expired":
            token = sealed(token._replace(expires=self._world.now))
        elif how.kind == "stolen":
            user = -1
        self._send(how.node, token, answers, patient=False, user=user)

    def leave(self) -> None:
        """Hang up on the open request; come back at once, or later."""
        if self._open is not None:
            process = self._world.nodes[self._at[self._open]]
            self._world.say(f"client {self.number}", "hangs up")
            self._world.send("client", process.name, process.take, process.hung_up, self._open)
            if self._haste.random() < 0.5:
                self._world.after(self._haste.random() * SOON, self._go_on)

    def hear(self, what: Request, text: Said) -> None:
        """A reply arrived."""
        if self.ended or what.call != self.call:
            return
        mine = what.number == self._open
        self._open = None if mine else self._open
        if text.outcome is not None:
            self.ended = "outcome"
        elif text.token is not None:
            self._learn(text.token, mine)
        elif text.invalid:
            self._world.watch.bounds.i8_refused(what)
            self.ended = "expired" if mine else ""
        elif mine and text.refusal in NAMED and self._gives_up():
            self.ended = str(text.refusal)
        elif text.refusal is Reason.CONFLICT:
            self._conflict(mine)
        elif text.refusal is Reason.DIVERGED and mine and self._world.plan.whole_from > self._asked_at:
            # It was told what happened, and asks again once the old code is back.
            away = max(0.0, self._world.plan.whole_from - self._world.now)
            self._world.after(away + self._rng.random() * 0.2, self._go_on)
        elif text.refusal in FINAL and mine and self.tokens:
            expired = self.tokens[-1].expires <= self._world.now
            self.ended = "expired" if expired else str(text.refusal)
        elif mine and text.refusal is Reason.NOT_TAKEN:
            # What its router does: another node, under another call id.
            self._start()
        elif mine:
            self._world.after(0.1 + self._rng.random() * 0.2, self._go_on)

    def _gives_up(self) -> bool:
        """Whether it has been told often enough that its call, which somebody changed in the store, can't go on."""
        self._told += not self._world.adversary.leaves(self.call, "I7")
        return self._told > PATIENT

    def _learn(self, token: Token, mine: bool) -> None:
        new = not self.tokens or token.round > self.tokens[-1].round
        if new or token.round == self.tokens[-1].round:
            self.tokens.append(token)
        if new or mine:
            self._open = None
            self._world.after(self._thinks(token), self._answer, token)

    def _thinks(self, token: Token) -> float:
        """Seconds until it answers. Where tokens are short-lived, whoever has nothing to say waits until the last;
        where the store goes back calls are parked meanwhile."""
        ttl, style = self._world.plan.token_ttl, self._style(token)
        if self._world.plan.restores:
            return self._rng.random() * self._rng.choice((0.3, 3.0))
        return 0.9 * ttl if ttl < LONG and style == "none" else 0.02 + self._rng.random() * 0.3

    def _style(self, token: Token) -> str:
        return self.intent.styles[min(token.round, len(self.intent.styles)) - 1]

    def _answer(self, token: Token) -> None:
        if self._open is None and self.tokens[-1].round == token.round and not self.ended:
            self._go_on()

    def _conflict(self, mine: bool) -> None:
        """Other answers won this round: they were ours too, so try those."""
        self._world.counts["conflicts"] += 1
        if mine and self.tokens:
            round_ = self.tokens[-1].round
            self._turn[round_] = self._turn.get(round_, 0) + 1
            self._world.after(0.05, self._go_on)
