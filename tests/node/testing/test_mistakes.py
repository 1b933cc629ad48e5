"""A rehearsal names what is not re-entrant: what differs from one entry to the next, and what misuses Framehold."""

from __future__ import annotations

import asyncio
import contextvars
import random
import threading
import uuid
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

import framehold
import framehold.testing
from framehold.sdk.present_call import current
from framehold.testing import Rehearsal, Rehearse, rehearsed
from framehold.testing.rehearsal import PlayedCall
from tests.kit.serving import Word, said
from tests.node.testing.marked import YES, Tool, caught, played, serving

rehearse = framehold.testing.rehearse


def fickle(kind: str) -> Tool:
    """A tool that comes to something else when it is entered again."""
    entered: list[str] = []

    async def well(ctx: Context) -> str:
        return said(await ctx.elicit("Well?", Word))

    async def in_its_question(ctx: Context) -> str:
        return said(await ctx.elicit(f"Pick {random.random()}?", Word))

    async def by_a_global(ctx: Context) -> str:
        return said(await ctx.elicit("First time?" if len(entered) < 3 else "Again?", Word))

    async def in_its_result(ctx: Context) -> str:
        return f"{await well(ctx)} {len(entered)}"

    async def by_an_effect_less(ctx: Context) -> str:
        answer = await well(ctx)
        if len(entered) == 1:
            await framehold.once("mail", asyncio.sleep, 0)
        return answer

    async def by_a_question_more(ctx: Context) -> str:
        answer = await well(ctx)
        return answer if len(entered) == 1 else said(await ctx.elicit("Really?", Word))

    async def by_a_question_less(ctx: Context) -> str:
        answer = await well(ctx)
        return answer if len(entered) > 1 else said(await ctx.elicit("Really?", Word))

    async def by_a_variable(ctx: Context) -> str:
        found: list[str] = []
        await framehold.once("find", lambda: found.append("x"))
        return f"{await well(ctx)} {len(found)}"

    async def by_an_endless_wait(ctx: Context) -> str:
        if len(entered) > 1:
            await asyncio.sleep(1000)
        return await well(ctx)

    async def never_ending(ctx: Context) -> str:
        await well(ctx)
        await asyncio.sleep(1000)
        return ""

    ways = (in_its_question, by_a_global, in_its_result, by_an_effect_less, by_a_question_more, by_a_question_less)
    known = {way.__name__: way for way in (*ways, by_a_variable, by_an_endless_wait, never_ending)}

    async def tool(ctx: Context) -> str:
        entered.append(kind)
        return await known[kind](ctx)

    return tool


LIKELY = "likely it depends on something that is not recorded"
DIFFERS: dict[str, tuple[str, ...]] = {
    "in_its_question": ("the call differs under replay: question 1.message is 'Pick 0.", "and was 'Pick 0.", LIKELY),
    "by_a_global": (
        "the call diverges under replay, after question 1, 'First time?' (key ",
        *("recorded is ask 'elicit-", "(First time?)", "(Again?)", LIKELY),
    ),
    "in_its_result": (
        "the call differs under replay: result.content[0].text is 'yes 3', and was 'yes 1' when",
        "what an effect outside once has done",
    ),
    "by_an_effect_less": ("the call differs under ", "the list of effects is [], and was ['mail'] when"),
    "by_a_question_more": ("", "question 2, 'Really?' (key ", "was not asked when"),
    "by_a_question_less": ("", "it does not ask 'Really?' (key "),
    "by_a_variable": ("the call differs under ", "result.content[0].text is 'yes 0', and was 'yes 1' when"),
    "by_an_endless_wait": ("the call did not end in 2 s under replay; it was cancelled after no question",),
    "never_ending": ("the call did not end in 2 s under hold; it was cancelled after question 1, 'Well?' (key",),
}
"""How the failure begins, and what else it says."""


@pytest.mark.parametrize("kind", DIFFERS)
def test_what_differs_is_named(kind: str, rehearse: Rehearse) -> None:
    answers = [YES] * (2 if kind == "by_a_question_less" else 1)
    options: dict[str, Any] = {"timeout": 2.0} if "end" in kind else {}
    found = caught(rehearse, fickle(kind), *answers, **options)
    begin, *more = DIFFERS[kind]
    assert found.startswith(begin) and [text for text in more if text not in found] == [], found


def test_an_effect_outside_once_is_not_seen(rehearse: Rehearse) -> None:
    ran: list[str] = []

    async def quiet(ctx: Context) -> str:
        ran.append("x")
        return said(await ctx.elicit("Well?", Word))

    assert played(rehearse, quiet, YES).effects == []
    assert len(ran) == 1 + 2 + 2, "it happened again in each entry"


def test_a_state_of_the_process(rehearse: Rehearse) -> None:
    """What a node keeps in its lifespan is not there on the next."""

    @asynccontextmanager
    async def lifespan(_: MCPServer[Any]) -> AsyncIterator[dict[str, str]]:
        yield {}

    server: MCPServer[Any] = MCPServer("forgetful", lifespan=lifespan)

    @server.tool()
    @framehold.reentrant
    async def remember(ctx: Context) -> str:
        kept: dict[str, str] = ctx.request_context.lifespan_context
        if "name" not in kept:
            kept["name"] = f"n{len(kept)}"
            await ctx.elicit("Name?", Word)
        return kept["name"]

    with pytest.raises(AssertionError, match=r"diverges under replay.*recorded is ask"):
        rehearse(server, "remember", answers=[YES])


@pytest.mark.parametrize(
    ("way", "text"),
    [
        ("hold", "ran 2 times under hold"),
        ("rebuild", "under rebuild: the effect 'pay' of once runs 2 times, and did 1"),
    ],
)
def test_an_effect_that_runs_twice(way: str, text: str, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Framehold's own fault, if it ever happens: said by name, although nothing runs in the other ways."""
    ran = PlayedCall.ran
    monkeypatch.setattr(PlayedCall, "ran", lambda self, key: [ran(self, key) for _ in range(1 + (self.way == way))])

    async def paid(ctx: Context) -> str:
        await framehold.once("pay", asyncio.sleep, 0)
        return "fine"

    assert text in caught(rehearse, paid)


# ---- effects of once


@pytest.mark.parametrize(("by", "heard"), [(asyncio.CancelledError, framehold.InDoubt), (SystemExit, RuntimeError)])
def test_an_effect_that_breaks_off(rehearse: Rehearse, by: type[BaseException], heard: type[Exception]) -> None:
    """The handler hears the same error in all ways."""
    ran: list[str] = []

    async def breaks() -> None:
        ran.append("x")
        raise by

    async def careful(ctx: Context) -> str:
        try:
            await framehold.once("break", breaks)
        except heard as error:
            return f"heard: {error}"
        return "done"

    assert played(rehearse, careful).text.startswith("heard: ") and ran == ["x"]


def test_effects_give_what_they_gave(rehearse: Rehearse) -> None:
    """Values, models, own exceptions and such as can't be kept: run once, and the same in all ways, as copies."""
    ran: list[str] = []
    shared: list[str] = ["first"]

    class Odd(Exception):
        def __init__(self, lock: Any) -> None:
            super().__init__(f"odd {uuid.uuid4()}")
            self.lock = lock

    async def effect(name: str) -> Any:
        ran.append(name)
        if name == "refuse":
            raise LookupError(f"refused {uuid.uuid4()}")
        if name == "odd":
            raise Odd(threading.Lock())
        made = {"model": Word(word=str(uuid.uuid4())), "lock": threading.Lock(), "shared": shared}
        return made.get(name, str(uuid.uuid4()))

    async def shop(ctx: Context) -> str:
        reply: list[Any] = []
        for name in ("text", "model", "shared", "refuse", "odd", "lock"):
            try:
                given = await framehold.once(name, effect, name)
                if isinstance(given, list):
                    given.append("copy")
                reply.append(given)
            except Exception as error:
                reply.append(f"{type(error).__name__}: {error}")
            shared.append("later")
            await ctx.elicit(f"{reply[-1]}?", Word)
        last = await framehold.once("last", effect, "last")
        return f"{reply} {last}"

    result = played(rehearse, shop, *[YES] * 6)
    assert ran == result.effects == ["text", "model", "shared", "refuse", "odd", "lock", "last"]
    assert result.questions[2] == "['first', 'later', 'later', 'copy']?" and result.questions[3].startswith(
        "LookupError: refused "
    )
    assert result.questions[4].startswith("EffectFailed: ") and result.questions[5].startswith("ResultNotKept: ")


def test_effects_end_in_the_order_in_which_they_ended(rehearse: Rehearse) -> None:
    """Also on one side of a time limit, and those that end at once. That the next one differs is no mistake."""
    delays = {"slow": 0.06, "quick": 0.03, "first": 0.0, "second": 0.0}

    async def shop(name: str) -> str:
        await asyncio.sleep(delays[name])
        return name

    async def heard(ctx: Context) -> str:
        found: list[str] = []

        async def ask(name: str) -> None:
            found.append(await framehold.once(name, shop, name))

        await asyncio.gather(*map(ask, delays))
        await ctx.elicit(f"Take the offer of {found}?", Word)
        return str(found)

    async def limited(ctx: Context) -> str:
        offer = asyncio.create_task(framehold.once("slow", shop, "slow"))
        in_time, _ = await asyncio.wait([offer], timeout=0.02)
        await framehold.once("note", str, len(in_time))
        await ctx.elicit(f"{len(in_time)} came in time, go on?", Word)
        return await offer

    assert played(rehearse, heard, YES).text == str(["first", "second", "quick", "slow"])
    assert played(rehearse, limited, YES).questions == ["0 came in time, go on?"]


@pytest.mark.parametrize("inside", [False, True])
def test_a_time_limit_belongs_into_its_effect(inside: bool, rehearse: Rehearse) -> None:
    """Around a `once` the result is recorded before what the limit leads to, and is there at once in a replay."""

    async def slow(limit: float | None) -> None:
        async with asyncio.timeout(limit):
            await asyncio.sleep(0.04)

    async def hurries(ctx: Context) -> str:
        try:
            async with asyncio.timeout(None if inside else 0.01):
                await framehold.once("slow", slow, 0.01 if inside else None)
        except TimeoutError:
            return said(await ctx.elicit("Too late, go on?", Word))
        return "in time"

    if inside:
        assert played(rehearse, hurries, YES).text == "yes"
    else:
        assert "the call diverges under replay" in caught(rehearse, hurries, YES)


def test_another_effect_in_another_way(rehearse: Rehearse) -> None:
    entered: list[str] = []
    ran: list[str] = []

    async def post(text: str, **more: str) -> None:
        ran.append(text)

    async def wire(text: str) -> None:
        ran.append(text)

    async def acts(kind: str) -> None:
        entered.append(kind)
        again = len(entered) > 1
        if kind == "new" and again:
            await framehold.once("mail", post, "x")
        if kind == "function":
            await framehold.once("mail", wire if again else post, "x")
        if kind == "arguments":
            await framehold.once("mail", post, "x", to=f"guest {len(entered)}")

    async def sends(kind: str, ctx: Context) -> str:
        try:
            await acts(kind)
        except Exception:
            return "it is told whatever the handler makes of it"
        return "fine"

    wanted = {
        "new": "the effect 'mail' of once did not run when the call was held; likely it depends on",
        "function": "is wire, and was post when the call was held; likely",
        "arguments": "is called with ('x', to='guest 2'), and was with ('x', to='guest 1') when the call was held",
    }
    for kind, text in wanted.items():
        entered.clear()
        ran.clear()
        with pytest.raises(AssertionError, match="the call differs under replay: the effect 'mail' of once") as failure:
            played(rehearse, sends, arguments={"kind": kind})
        assert text in str(failure.value) and ran == ([] if kind == "new" else ["x"])


# ---- what the handler may not do


async def fine() -> str:
    return "fine"


async def one_key_for_two(ctx: Context) -> None:
    await framehold.once("mail", asyncio.sleep, 0, "Ada")
    await framehold.once("mail", asyncio.sleep, 0, "Bob")


async def a_question_in_an_effect(ctx: Context) -> None:
    await framehold.once("ask", lambda: ctx.elicit("Well?", Word))


async def once_in_an_effect(ctx: Context) -> None:
    await framehold.once("outer", lambda: framehold.once("inner", fine))


async def two_questions_alike(ctx: Context) -> None:
    await asyncio.gather(framehold.ask("k", "One?", Word), framehold.ask("k", "Two?", Word))


async def a_value(ctx: Context) -> None:
    await framehold.once("pay", "paid")  # type: ignore[call-overload]  # that is the point


async def a_coroutine(ctx: Context) -> None:
    # Closed by once, so that no warning says that it was never awaited: that would be an error here.
    await framehold.once("pay", fine())  # type: ignore[call-overload]  # that is the point


async def no_key(ctx: Context) -> None:
    await framehold.once("", fine)


async def outside_of_the_call(ctx: Context) -> None:
    await asyncio.create_task(framehold.once("pay", fine), context=_without_a_call())


async def never_awaited(ctx: Context) -> None:
    framehold.once("pay", fine)  # type: ignore[unused-coroutine]  # that is the point


def _without_a_call() -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(current.set, None)
    return context


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        (one_key_for_two, "once('mail') stands for sleep with other arguments in this call already"),
        (a_question_in_an_effect, "a question inside the effect of once('ask')"),
        (once_in_an_effect, "once('inner') inside the effect of once('outer')"),
        (two_questions_alike, "a question with the key 'k' is pending already"),
        (a_value, "framehold.once('pay'): its second argument must be a function, not str"),
        (a_coroutine, "framehold.once('pay'): its second argument must be the function, not what a call of it gave"),
        (no_key, "framehold.once: its key must be a text that is not empty, not ''"),
        (outside_of_the_call, "framehold.once('pay') was used outside a call"),
        (never_awaited, "framehold.once('pay') was never awaited; nothing was run"),
    ],
)
@pytest.mark.parametrize("catches", [False, True])
def test_misuse(mistake: Tool, text: str, catches: bool, rehearse: Rehearse) -> None:
    """It fails with its own text, caught or not; or is left to the handler, whose client hears the same each time."""

    async def slips(ctx: Context) -> str:
        try:
            await mistake(ctx)
        except Exception as error:
            if not catches:
                raise
            return f"caught {error}"
        return "fine"

    with pytest.raises(AssertionError) as failure:
        played(rehearse, slips, answers=lambda asked: YES)
    assert str(failure.value).startswith(f"the call misuses framehold: {text}"), failure.value
    assert str(failure.value).endswith(" (under hold)")
    handled = catches and mistake is not never_awaited
    raises: Any = () if handled else (framehold.FrameholdError, TypeError)
    result = played(rehearse, slips, answers=lambda asked: YES, allow_misuse=True, raises=raises)
    if handled:
        assert result.text.startswith(f"caught {text}") and result.raised is None
    else:
        assert result.text == "Error executing tool slips" and str(result.raised).startswith(text)
    assert warnings_hook() is PYTHONS


def warnings_hook() -> Any:
    return vars(warnings)["_warn_unawaited_coroutine"]


PYTHONS = warnings_hook()


async def test_rehearsals_that_overlap() -> None:
    ran: list[str] = []

    async def pays(name: str, ctx: Context) -> str:
        await ctx.elicit("Well?", Word)
        await framehold.once("pay", ran.append, name)
        if name == "b":
            framehold.once("pay", fine)  # type: ignore[unused-coroutine]  # that is the point
        return name

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        calls = [rehearsed(serving(pays), "pays", {"name": name}, answers=[YES]) for name in "abc"]
        one, failed, three = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(failed, AssertionError) and "never awaited" in str(failed)
    assert isinstance(one, Rehearsal) and isinstance(three, Rehearsal) and one.effects == three.effects == ["pay"]
    assert sorted(ran) == ["a", "b", "c"] and warnings_hook() is PYTHONS


def test_misuse_in_another_way(rehearse: Rehearse) -> None:
    entered: list[int] = []

    async def late(ctx: Context) -> str:
        entered.append(1)
        if len(entered) > 1:
            await framehold.once("pay", "paid")  # type: ignore[call-overload]  # that is the point
        return "fine"

    async def threaded(ctx: Context) -> str:
        return str(await asyncio.get_running_loop().run_in_executor(None, framehold.uuid4))

    assert caught(rehearse, late).endswith("(under replay)")
    assert caught(rehearse, threaded).startswith("the call misuses framehold: framehold.uuid4() was used outside")


def test_what_is_no_misuse(rehearse: Rehearse) -> None:
    async def keeps(ctx: Context) -> str:
        return str(await framehold.once("lock", threading.Lock))

    async def other(ctx: Context) -> str:
        return str(await framehold.once("type", fine, "too many"))

    assert isinstance(played(rehearse, keeps, raises=framehold.OnceError).raised, framehold.ResultNotKept)
    assert isinstance(played(rehearse, other, raises=TypeError).raised, TypeError)
