"""One call, from its record and its node: its fields, and the sentence on what will happen to it. And look-ups."""

from __future__ import annotations

from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import pytest

from framehold_core.errors import StoreUnavailable
from framehold_core.ids import CallId
from framehold_core.requests import Commit, Evidence, Head, Request, Seen
from framehold_core.value import replace
from framehold_fleet.members.node_stats import Stats
from framehold_fleet.models.calls import EndedCallView
from framehold_router.routing.placement import Placer
from framehold_router.routing.request_facts import Facts, RequestKind
from tests.router.cast import NOW, Answer, Cast, cast_of, get, member, said, saying
from tests.store.calls import E0, HEAD, PLAIN, RAISED, Story, batch, fence

pytestmark = pytest.mark.anyio

CALL = CallId("0123456789abcdef0123456789abcdef")


@pytest.fixture
async def cast() -> AsyncIterator[Cast]:
    async with cast_of() as made:
        yield made


def held(call: str, state: str = "parked", node: str = "node-1") -> Answer:
    item = {"call_id": call, "tool": "t", "node_id": node, "state": state, "reentrant": True, "epoch": 1, "round": 1}
    return saying({"items": [item], "total": 1})


HOLDS_NONE = saying({"items": [], "total": 0})


async def shown(cast: Cast, story: Story, *steps: Request) -> Any:
    for step in steps:
        await cast.store.run(step)
    return await get(await cast.client(0.2), f"/api/v1/leases/{story.call}")


async def node(cast: Cast, answer: Answer, name: str = "node-1", boot: str = "boot-1") -> None:
    await cast.node(name, saying(said(name)), {"GET /admin/leases": answer}, boot=boot)


async def test_a_parked_call_that_dies_with_its_node(cast: Cast) -> None:
    """Its fate says so."""
    story = Story(PLAIN)
    await node(cast, held(story.call))
    fate = (await shown(cast, story, story.ask))["fate"]
    assert fate.endswith("when its client answers. It is not re-entrant: it is lost if its node ends before.")


async def test_a_parked_call(cast: Cast) -> None:
    """Its record, its trail, and its frame as its node tells of it. Lines that can't be read are left out."""
    story = Story()
    await node(cast, held(story.call))
    body = await shown(cast, story, story.ask)
    assert cast.asked[0].query["call"] == story.call
    assert body["live"]["state"] == "parked"
    assert body["fate"] == "Its node holds its frame; it continues when its client answers."
    wanted = {"record": "open", "tool": "weather", "method": "tools/call", "node_id": "node-1", "epoch": 1, "round": 1}
    assert {name: body[name] for name in wanted} == wanted
    assert (body["created"], body["expires"], body["attempts"]) == (NOW, NOW + 600.0, 0)
    assert body["journal"] == [], "these are no lines of a journal"
    assert body["trail"] == [
        {"step": "parked", "round": 1, "epoch": 1, "node_id": "node-1", "at": NOW, "ran": 0.0, "kept_code": False}
    ]  # fmt: skip


async def test_a_running_call(cast: Cast) -> None:
    story = Story()
    await node(cast, held(story.call, "running"))
    assert (await shown(cast, story, story.ask))["fate"] == "Its node runs a round of it."


async def test_its_frame_was_evicted(cast: Cast) -> None:
    """The node lives, and holds none."""
    story = Story()
    await node(cast, HOLDS_NONE)
    body = await shown(cast, story, story.ask)
    assert body["live"] is None
    assert body["fate"].startswith("Its node holds no frame of it: its client's next retry replays it, as long as its ")


@pytest.mark.parametrize("head", [HEAD, PLAIN])
async def test_its_frame_went_before_it_had_asked(cast: Cast, head: Head) -> None:
    """Its record begins with the intent of an effect: no token of it is out, so no retry can come."""
    story = Story(head)
    await node(cast, HOLDS_NONE)
    body = await shown(cast, story, story.first_intent)
    assert (body["record"], body["round"]) == ("open", 0)
    assert body["fate"].startswith("Its frame is gone, and it had asked nothing: nobody has a token to come back with.")


@pytest.mark.parametrize("boot", ["boot-2", ""])
async def test_its_node_is_gone(cast: Cast, boot: str) -> None:
    """No lease of its name, or of another life."""
    story = Story()
    if boot:
        await node(cast, HOLDS_NONE, boot=boot)
    fate = (await shown(cast, story, story.ask))["fate"]
    assert fate.startswith("Its node is gone: its client's next retry replays it on another node")
    assert "2023-11-14 22:23:20 UTC" in fate, "when its record goes"


async def test_its_node_is_gone_and_it_is_not_reentrant(cast: Cast) -> None:
    story = Story(PLAIN)
    fate = (await shown(cast, story, story.ask))["fate"]
    assert fate == "Not re-entrant, and its frame is gone: its next retry is told that it is lost."


async def test_its_node_does_not_say(cast: Cast) -> None:
    story = Story()
    await node(cast, saying("", 500))
    assert "did not say whether it holds the frame" in (await shown(cast, story, story.ask))["fate"]


async def test_a_call_that_was_handed_off(cast: Cast) -> None:
    story = Story()
    await node(cast, HOLDS_NONE)
    body = await shown(cast, story, story.ask, story.release)
    assert (body["record"], body["fate"].split(":")[0]) == ("released", "It was handed off")
    assert [step["step"] for step in body["trail"]] == ["parked", "released"]


async def test_a_call_that_was_taken_over(cast: Cast) -> None:
    """Its trail leads over both nodes."""
    story = Story()
    await node(cast, held(story.call, node="node-2"), "node-2", "boot-9")
    body = await shown(cast, story, story.ask, story.claim)
    assert [(step["step"], step["node_id"], step["epoch"]) for step in body["trail"]] == [
        ("parked", "node-1", 1), ("claimed", "node-2", 2)
    ]  # fmt: skip
    assert (body["attempts"], body["live"]["node_id"]) == (1, "node-2")
    assert not any(step["kept_code"] for step in body["trail"])


async def test_a_call_that_goes_on_with_kept_code(cast: Cast) -> None:
    story = Story()
    body = await shown(cast, story, story.ask, replace(story.claim, kept=True))
    assert [(step["step"], step["kept_code"]) for step in body["trail"]] == [("parked", False), ("claimed", True)]


async def test_a_stuck_call(cast: Cast) -> None:
    """As many owners died as may; while one of them runs it, it isn't stuck yet."""
    story = Story()
    claims = [story.claims(Seen(1, "node-1", "inc-1"), Evidence.GONE)]
    claims += [
        story.claims(
            Seen(epoch, "node-2", f"inc-{epoch + 7}"), Evidence.GONE, incarnation=f"inc-{epoch + 8}", boot="dead"
        )
        for epoch in range(2, 6)
    ]
    body = await shown(cast, story, story.ask, *claims)
    assert body["attempts"] == 5
    assert body["outcome"] == "stuck" and body["fate"].startswith("It is stuck: 5 owners in a row are gone that ran it")
    await node(cast, held(story.call, "running", "node-2"), "node-2", "dead")
    assert (await shown(cast, story))["fate"] == "Its node runs a round of it."


async def test_a_call_that_has_ended(cast: Cast) -> None:
    """No node is asked. The trail outlives the journal."""
    story = Story()
    await node(cast, HOLDS_NONE)
    body = await shown(cast, story, story.ask, story.finish)
    assert (body["record"], body["outcome"], cast.asked) == ("done", "tool_error", [])
    assert (body["error"], body["place"]) == (RAISED.error, RAISED.place)
    assert body["fate"].startswith("It has ended; its outcome, or the digest of a large one, is kept until 2023-")
    assert [step["step"] for step in body["trail"]] == ["parked", "finished"]
    assert "out" not in str(body["journal"])


async def test_a_call_that_is_lost(cast: Cast) -> None:
    story = Story(PLAIN)
    body = await shown(cast, story, story.ask, story.claim)
    assert (body["record"], body["outcome"], body["fate"].split(":")[0]) == ("lost", "lost", "It is lost")


def ended(call: str, outcome: str, node: str = "node-1") -> EndedCallView:
    item = {
        "call_id": call,
        "tool": "t",
        "node_id": node,
        "outcome": outcome,
        "error": "KeyError",
        "place": "shop:pay:7",
    }
    times = {"rounds": 1, "reentrant": True, "began": NOW, "ended": NOW + 9, "seconds": 9.0}
    return EndedCallView.model_validate({**item, **times})


async def test_a_call_whose_replay_diverged(cast: Cast) -> None:
    """Its next retry would diverge again: no replay is promised."""
    story = Story()
    await cast.ended(ended(story.call, "diverged"))
    calls = {"GET /admin/leases": HOLDS_NONE}
    await cast.node("node-1", saying(said("node-1")), calls, boot="boot-1")
    body = await shown(cast, story, story.ask)
    assert (body["record"], body["outcome"]) == ("open", "diverged")
    assert body["fate"].startswith("node-1 can't continue it: its replay there diverged")
    assert "replays it" not in body["fate"] and "2023-11-14 22:23:20 UTC" in body["fate"]
    again = {"GET /admin/leases": held(story.call)}
    cast.members.clear()
    await cast.node("node-1", saying(said("node-1")), again, boot="boot-1")
    body = await shown(cast, story)
    assert (body["outcome"], body["fate"]) == ("", "Its node holds its frame; it continues when its client answers.")


async def test_a_call_that_ended_without_a_record(cast: Cast) -> None:
    """Most never ask: the node on which one ended wrote how, and may be gone."""
    await cast.ended(ended(CALL, "tool_error", "b"))
    await node(cast, HOLDS_NONE, "a")
    body = await get(await cast.client(0.2), f"/api/v1/leases/{CALL}")
    assert (body["record"], body["outcome"], body["node_id"]) == ("none", "tool_error", "b")
    assert (body["error"], body["place"], body["fate"].split(",")[0]) == ("KeyError", "shop:pay:7", "It has ended")
    assert body["round"] == 0, "its only round was answered with its end: it has asked nothing"


async def test_a_call_in_its_first_round(cast: Cast) -> None:
    """It has no record: the nodes know it."""
    story = Story()
    await node(cast, HOLDS_NONE, "a")
    await node(cast, held(story.call, "running", "b"), "b")
    body = await shown(cast, story)
    assert (body["record"], body["live"]["node_id"], body["node_id"], body["created"]) == ("none", "b", "b", None)
    assert "has no record yet" in body["fate"]


async def test_a_call_that_nobody_knows(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or that nobody can look up now."""
    await node(cast, HOLDS_NONE)
    client = await cast.client()
    body = await get(client, f"/api/v1/leases/{CALL}", 404)
    assert CALL[:8] in body["error"] and CALL not in body["error"]
    assert "leases?call=" in (await get(client, "/api/v1/leases/0123", 404))["error"]

    async def down(_: object) -> object:
        raise StoreUnavailable("down")

    monkeypatch.setattr(cast.store, "run", down)
    assert "the store did not answer" in (await get(client, f"/api/v1/leases/{CALL}", 503))["error"]


async def test_one_read_and_no_scan(cast: Cast) -> None:
    """Whatever the store holds."""
    story = Story()
    await node(cast, held(story.call))
    await shown(cast, story, story.ask)
    assert dict(cast.store.request_counts) == {"commit": 1, "read": 1}


async def looked_up(cast: Cast, token: str, status: int = 200) -> Any:
    client = await cast.client()
    async with client.post("/api/v1/lookup", json={"token": token}) as response:
        assert response.status == status
        return await response.json()


async def test_where_a_token_goes(cast: Cast) -> None:
    """By the ring, by what was learned, and to nobody; the token itself is not repeated."""
    await node(cast, held(CALL, node="a"), "a")
    placer = Placer(lambda: cast.fleet, lambda: 0.0)
    cast.more["place"] = placer.where
    body = await looked_up(cast, f"h1.{CALL}.secret")
    assert (body["kind"], body["call_id"], body["ring_node"], body["node_id"], body["reason"]) == (
        "hold", CALL, "a", "a", "ring"
    )  # fmt: skip
    assert body["live"]["call_id"] == CALL and body["silent"] is False
    assert "secret" not in str(body)
    cast.members.clear()
    body = await looked_up(cast, f"h1.{CALL}.secret")
    assert (body["node_id"], body["ring_node"], body["reason"]) == ("", "", "no node can be reached")


async def test_a_token_whose_node_does_not_answer(cast: Cast) -> None:
    """Nothing is known of the frame then: it may be there."""
    cast.members.append(member("a", "http://127.0.0.1:1"))
    cast.more["place"] = Placer(lambda: cast.fleet, lambda: 0.0).where
    body = await looked_up(cast, f"h1.{CALL}.secret")
    assert (body["node_id"], body["live"], body["silent"]) == ("a", None, True)


async def test_where_other_tokens_go(cast: Cast) -> None:
    """Any node serves a stateless one; a session goes to its node as long as that lives."""
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


async def test_a_token_that_is_too_long_is_refused_unseen(cast: Cast) -> None:
    """And what is refused is not repeated."""
    assert "token is wrong" in (await looked_up(cast, "", 400))["error"]
    client = await cast.client()
    async with client.post("/api/v1/lookup", data=BytesIO(b'{"token":"' + b"x" * 8_500_000 + b'"}')) as response:
        text = await response.text()
        assert (response.status, "xxx" in text) == (400, False)
    async with client.post("/api/v1/lookup", data=BytesIO(b"x" * 10_000_000)) as response:
        assert (response.status, "beyond" in (await response.json())["error"]) == (413, True)


async def test_looking_up_changes_no_placement(cast: Cast) -> None:
    """A node that is passed over is not tried for a question."""
    cast.members += [member("a", "http://a:1"), member("b", "http://b:1")]
    now = [0.0]
    placer = Placer(lambda: cast.fleet, lambda: now[0])
    facts = Facts(RequestKind.RETRY, call=CALL)
    first = placer.where(facts)
    assert first is not None
    placer.unreachable(first.node)
    now[0] = 3.0
    assert placer.where(facts) == placer.where(facts)
    tried = placer.place(facts)
    assert tried is not None and tried.node == first.node, "its time is over, and no question has taken the turn"
    after = placer.where(facts)
    assert after is not None and after.node != first.node, "one request tries it, and the others wait"


async def test_a_commit_by_name(cast: Cast) -> None:
    """The owner is asked by its name in the record."""
    await node(cast, held(CALL, node="a"), "a")
    await cast.store.run(Commit(CALL, fence(0, 0, owner="a"), batch((), E0), 600.0, None, HEAD))
    body = await get(await cast.client(), f"/api/v1/leases/{CALL}")
    assert body["live"]["node_id"] == "a"
