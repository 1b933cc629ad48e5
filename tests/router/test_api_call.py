"""One call, from its record and its node: its fields, and the sentence on what will happen to it. And look-ups."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import CallId
from framehold_core.requests import Evidence, Head, Request, Seen
from framehold_core.value import replace
from framehold_fleet.members.node_stats import Stats
from framehold_fleet.models.calls import EndedCallView
from framehold_router.routing.placement import Placer
from tests.router.cast import NOW, Answer, Cast, get, member, said, saying
from tests.store.calls import HEAD, PLAIN, RAISED, Story

CALL = CallId("0123456789abcdef0123456789abcdef")


def held(call: str, state: str = "parked", node: str = "node-1") -> Answer:
    """What a node says that holds a call in this state; in none, that holds no call."""
    item = {"call_id": call, "tool": "t", "node_id": node, "state": state, "reentrant": True, "epoch": 1, "round": 1}
    items = [item] if state else []
    return saying({"items": items, "total": len(items)})


NONE = held(CALL, "")


async def shown(cast: Cast, story: Story, *steps: Request) -> Any:
    for step in steps:
        await cast.store.run(step)
    return await get(await cast.client(), f"/api/v1/leases/{story.call}")


async def node(cast: Cast, answer: Answer, name: str = "node-1", boot: str = "boot-1") -> None:
    await cast.node(name, saying(said(name)), {"GET /admin/leases": answer}, boot=boot)


def claimed(story: Story) -> list[Request]:
    return [story.ask, story.claim]


def asked(story: Story) -> list[Request]:
    return [story.ask]


PARKED, RUNNING, HOLDS_NONE = "parked", "running", ""
FATES: dict[str, tuple[Head, Callable[[Story], list[Request]], str | None, str, str]] = {
    "parked": (HEAD, asked, PARKED, "boot-1", "Its node holds its frame; it continues when its client answers."),
    "parked, not re-entrant": (
        PLAIN, asked, PARKED, "boot-1", ".* It is not re-entrant: it is lost if its node ends before.",
    ),
    "running": (HEAD, asked, RUNNING, "boot-1", "Its node runs a round of it."),
    "evicted": (
        HEAD, asked, HOLDS_NONE, "boot-1", "Its node holds no frame of it: its client's next retry replays it, as long",
    ),
    # Its record begins with the intent of an effect: no token of it is out, so no retry can come.
    "gone before it asked": (
        HEAD, lambda story: [story.first_intent], HOLDS_NONE, "boot-1", "Its frame is gone, and it had asked nothing",
    ),
    "gone before it asked, not re-entrant": (
        PLAIN, lambda story: [story.first_intent], HOLDS_NONE, "boot-1", "Its frame is gone, and it had asked nothing",
    ),
    "its node is gone": (
        HEAD, asked, None, "", "Its node is gone: its client's next retry replays it on .*2023-11-14 22:23:20 UTC",
    ),
    "its node is in another life": (HEAD, asked, HOLDS_NONE, "boot-2", "Its node is gone: "),
    "its node is gone, not re-entrant": (
        PLAIN, asked, None, "", "Not re-entrant, and its frame is gone: its next retry is told that it is lost.$",
    ),
    "its node does not say": (HEAD, asked, "500", "boot-1", ".*did not say whether it holds the frame"),
    "handed off": (HEAD, lambda story: [story.ask, story.release], HOLDS_NONE, "boot-1", "It was handed off: "),
    "lost": (PLAIN, claimed, None, "", "It is lost: "),
}  # fmt: skip


@pytest.mark.parametrize(("head", "steps", "state", "boot", "fate"), FATES.values(), ids=FATES.keys())
async def test_the_fate_of_a_call(
    cast: Cast, head: Head, steps: Callable[[Story], list[Request]], state: str | None, boot: str, fate: str
) -> None:
    story = Story(head)
    if state is not None:
        await node(cast, saying("", 500) if state == "500" else held(story.call, state), boot=boot)
    body = await shown(cast, story, *steps(story))
    assert re.match(fate, body["fate"]), body["fate"]
    assert (body["live"] is None) == (state not in (PARKED, RUNNING))
    ends = {"It is lost: ": ("lost", "lost"), "It was handed off: ": ("released", "")}
    assert (body["record"], body["outcome"]) == ends.get(fate, ("open", ""))


async def test_a_parked_call(cast: Cast) -> None:
    story = Story()
    await node(cast, held(story.call))
    body = await shown(cast, story, story.ask)
    assert cast.asked[0].query["call"] == story.call
    wanted = {"record": "open", "tool": "weather", "method": "tools/call", "node_id": "node-1", "epoch": 1, "round": 1}
    assert {name: body[name] for name in wanted} == wanted
    assert (body["created"], body["expires"], body["attempts"]) == (NOW, NOW + 600.0, 0)
    assert body["journal"] == [], "these are no lines of a journal"
    assert body["trail"] == [
        {"step": "parked", "round": 1, "epoch": 1, "node_id": "node-1", "at": NOW, "ran": 0.0, "kept_code": False}
    ]  # fmt: skip
    assert dict(cast.store.request_counts) == {"commit": 1, "read": 1}


@pytest.mark.parametrize("kept", [False, True])
async def test_a_call_that_was_taken_over(cast: Cast, kept: bool) -> None:
    story = Story()
    await node(cast, held(story.call, node="node-2"), "node-2", "boot-9")
    body = await shown(cast, story, story.ask, replace(story.claim, kept=kept))
    assert [(step["step"], step["node_id"], step["epoch"], step["kept_code"]) for step in body["trail"]] == [
        ("parked", "node-1", 1, False), ("claimed", "node-2", 2, kept)
    ]  # fmt: skip
    assert (body["attempts"], body["live"]["node_id"]) == (1, "node-2")


async def test_a_stuck_call(cast: Cast) -> None:
    story = Story()
    claims = [story.claims(Seen(1, "node-1", "inc-1"), Evidence.GONE)]
    for epoch in range(2, 6):
        seen = Seen(epoch, "node-2", f"inc-{epoch + 7}")
        claims.append(story.claims(seen, Evidence.GONE, incarnation=f"inc-{epoch + 8}", boot="dead"))
    body = await shown(cast, story, story.ask, *claims)
    assert body["attempts"] == 5
    assert body["outcome"] == "stuck" and body["fate"].startswith("It is stuck: 5 owners in a row are gone that ran it")
    await node(cast, held(story.call, "running", "node-2"), "node-2", "dead")
    assert (await shown(cast, story))["fate"] == "Its node runs a round of it."


async def test_a_call_that_has_ended(cast: Cast) -> None:
    story = Story()
    await node(cast, held(story.call))
    body = await shown(cast, story, story.ask, story.finish)
    assert (body["record"], body["outcome"], cast.asked) == ("done", "tool_error", [])
    assert (body["error"], body["place"]) == (RAISED.error, RAISED.place)
    assert body["fate"].startswith("It has ended; its outcome, or the digest of a large one, is kept until 2023-")
    assert [step["step"] for step in body["trail"]] == ["parked", "finished"]
    assert "out" not in str(body["journal"])


def ended(call: str, outcome: str, node: str = "node-1") -> EndedCallView:
    how = {"outcome": outcome, "error": "KeyError", "place": "shop:pay:7", "rounds": 1, "reentrant": True}
    times = {"began": NOW, "ended": NOW + 9, "seconds": 9.0}
    return EndedCallView.model_validate({"call_id": call, "tool": "t", "node_id": node, **how, **times})


async def test_a_call_whose_replay_diverged(cast: Cast) -> None:
    """Its next retry would diverge again: no replay is promised."""
    story = Story()
    await cast.ended(ended(story.call, "diverged"))
    await node(cast, NONE)
    body = await shown(cast, story, story.ask)
    assert (body["record"], body["outcome"]) == ("open", "diverged")
    assert body["fate"].startswith("node-1 can't continue it: its replay there diverged")
    assert "replays it" not in body["fate"] and "2023-11-14 22:23:20 UTC" in body["fate"]
    cast.members.clear()
    await node(cast, held(story.call))
    body = await shown(cast, story)
    assert (body["outcome"], body["fate"]) == ("", "Its node holds its frame; it continues when its client answers.")


async def test_a_call_that_ended_without_a_record(cast: Cast) -> None:
    """Most never ask: the node on which one ended wrote how, and may be gone."""
    await cast.ended(ended(CALL, "tool_error", "b"))
    await node(cast, NONE, "a")
    body = await get(await cast.client(0.2), f"/api/v1/leases/{CALL}")
    assert (body["record"], body["outcome"], body["node_id"]) == ("none", "tool_error", "b")
    assert (body["error"], body["place"], body["fate"].split(",")[0]) == ("KeyError", "shop:pay:7", "It has ended")
    assert body["round"] == 0, "its only round was answered with its end: it has asked nothing"


async def test_a_call_in_its_first_round(cast: Cast) -> None:
    story = Story()
    await node(cast, NONE, "a")
    await node(cast, held(story.call, "running", "b"), "b")
    body = await shown(cast, story)
    assert (body["record"], body["live"]["node_id"], body["node_id"], body["created"]) == ("none", "b", "b", None)
    assert "has no record yet" in body["fate"]


async def test_a_call_that_nobody_knows(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    await node(cast, NONE)
    client = await cast.client()
    body = await get(client, f"/api/v1/leases/{CALL}", 404)
    assert CALL[:8] in body["error"] and CALL not in body["error"]
    assert "leases?call=" in (await get(client, "/api/v1/leases/0123", 404))["error"]

    async def down(_: object) -> object:
        raise StoreUnavailable("down")

    monkeypatch.setattr(cast.store, "run", down)
    assert "the store did not answer" in (await get(client, f"/api/v1/leases/{CALL}", 503))["error"]


async def looked_up(cast: Cast, token: str, status: int = 200) -> Any:
    client = await cast.client()
    async with client.post("/api/v1/lookup", json={"token": token}) as response:
        assert response.status == status
        return await response.json()


async def test_where_a_token_goes(cast: Cast) -> None:
    await node(cast, held(CALL, node="a"), "a")
    cast.more["place"] = Placer(lambda: cast.fleet, lambda: 0.0).where
    body = await looked_up(cast, f"h1.{CALL}.secret")
    assert (body["kind"], body["call_id"], body["ring_node"], body["node_id"], body["reason"]) == (
        "hold", CALL, "a", "a", "ring"
    )  # fmt: skip
    assert body["live"]["call_id"] == CALL and body["silent"] is False
    assert "secret" not in str(body)
    cast.members[:] = [member("a", "http://127.0.0.1:1")]
    body = await looked_up(cast, f"h1.{CALL}.secret")
    assert (body["node_id"], body["live"], body["silent"]) == ("a", None, True)
    cast.members.clear()
    body = await looked_up(cast, f"h1.{CALL}.secret")
    assert (body["node_id"], body["ring_node"], body["reason"]) == ("", "", "no node can be reached")


async def test_where_other_tokens_go(cast: Cast) -> None:
    cast.members.append(member("n", "http://127.0.0.1:1", stats=Stats(), boot="b1"))
    for token, kind, name, reason in (
        ("s1.sealed", "replay", "", "any"),
        ("whatever", "other", "", "any"),
        ("h1.x.y", "other", "", "any"),
        ("l1.n.b1.id", "session", "n", "session"),
        ("l1.n.b0.id", "session", "n", "former life"),
        ("l1.m.b1.id", "session", "", "is gone"),
    ):
        body = await looked_up(cast, token)
        assert (body["kind"], body["node_id"], reason in body["reason"]) == (kind, name, True), token
        assert body["position"] is None, "it names no call"


async def test_a_token_that_is_too_long_is_refused_unseen(cast: Cast) -> None:
    assert "token is wrong" in (await looked_up(cast, "", 400))["error"]
    client = await cast.client()
    async with client.post("/api/v1/lookup", data=BytesIO(b'{"token":"' + b"x" * 8_500_000 + b'"}')) as response:
        text = await response.text()
        assert (response.status, "xxx" in text) == (400, False)
    async with client.post("/api/v1/lookup", data=BytesIO(b"x" * 10_000_000)) as response:
        assert (response.status, "beyond" in (await response.json())["error"]) == (413, True)
