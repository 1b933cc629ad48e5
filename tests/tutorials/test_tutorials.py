"""The official client sees the same of every tutorial program, whoever serves it.

Each has the shape of a program on the SDK's pages on elicitation and on multi-round trips, and runs over real HTTP:
under the plain SDK in the revision where that can run it, under Framehold on 2026-07-28, and, where the first run was
of an older revision, under Framehold in that one too. On 2026-07-28 it makes no difference to the client whether the
frame is held, dropped and rebuilt after each round (rehearsal), or never kept at all (strategy replay). The built-in
example is one of them.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from mcp import Client

import framehold
from framehold.config import Settings
from framehold.examples import booking
from tests.promised import promised
from tests.tutorials.cases import CASES, Case, accept, tool
from tests.tutorials.over_http import over_http
from tests.tutorials.person import Person, folders, model

pytestmark = [pytest.mark.anyio, pytest.mark.nightly]

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
VERSIONS = {"2025": "2025-11-25", "2026": "2026-07-28"}


def client_of(url: str, era: str, someone: Person, case: Case) -> Client:
    """A client that declares what the case says, by registering the callbacks for it."""
    return Client(
        url,
        mode="legacy" if era == "2025" else "auto",
        elicitation_callback=someone.elicit if "elicitation" in case.callbacks else None,
        sampling_callback=model if "sampling" in case.callbacks else None,
        list_roots_callback=folders if "roots" in case.callbacks else None,
        input_required_max_rounds=case.rounds,
    )


async def run(case: Case, app: Any, era: str) -> None:
    """Serve, call, and compare what the client saw with what the case says."""
    someone = Person(case.answers)
    with over_http(app) as url:
        async with client_of(url, era, someone, case) as client:
            assert client.protocol_version == VERSIONS[era]
            sees = await case.call(client)
    assert sees == case.sees
    assert tuple(someone.asked) == case.asked


@each_case
async def test_the_plain_sdk_is_the_reference(case: Case) -> None:
    """What the page promises, under the SDK alone."""
    await run(case, case.build().streamable_http_app(), case.era)


@each_case
async def test_under_framehold_on_2026_07_28(case: Case) -> None:
    """The same program, unchanged, on the revision without a way back to the client."""
    await run(case, framehold.asgi(case.build()), "2026")


BOOKING = Case(
    "the built-in example",
    lambda: importlib.reload(booking).mcp,
    tool("book", restaurant="Luna"),
    "Booked for Ada. Luna, friday evening: a table for 2 in the garden, by candlelight. See you there!",
    answers=(accept(guests=2, evening="friday"), accept(place="garden", candles=True), accept(name="Ada")),
    asked=(
        "A table at Luna, with pleasure. Tell me about your party.",
        "For 2 on friday there is a choice of tables.",
        "Luna, friday evening: a table for 2 in the garden, by candlelight. Shall I book it?",
    ),
)
WAYS: dict[str, dict[str, Any]] = {"hold": {}, "rehearsal": {"rehearse": True}, "replay": {"strategy": "replay"}}


@pytest.mark.parametrize("case", [*CASES, BOOKING], ids=lambda case: case.name)
@pytest.mark.parametrize("way", WAYS)
async def test_marked_it_is_the_same_in_every_way(case: Case, way: str) -> None:
    """Held, rehearsed or replayed: the client sees what the plain SDK shows it, and every round but the first of a
    call that asks was replayed where nothing is held."""
    app = framehold.asgi(promised(case.build()), Settings(node_id="way", **WAYS[way]))
    await run(case, app, "2026")
    counts = app.attached.runtime.counts
    assert counts["rebuilt"] == (0 if way == "hold" else counts["resumed"])


@pytest.mark.parametrize("case", [case for case in CASES if case.era == "2025"], ids=lambda case: case.name)
async def test_under_framehold_an_older_client_is_served_as_before(case: Case) -> None:
    """A client of the handshake era gets the SDK's own behaviour."""
    await run(case, framehold.asgi(case.build()), "2025")
