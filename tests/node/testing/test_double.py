"""The nodes that a rehearsal plays a call on, beside the server that they are doubles of."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server.mcpserver import Context

import framehold
import framehold.testing
from framehold.config import Settings
from framehold.testing import RehearsalFailed, Rehearse
from tests.kit.serving import Word, said
from tests.node.testing.marked import YES, played, serving

rehearse = framehold.testing.rehearse


@pytest.mark.parametrize("in_code", [True, False])
@pytest.mark.parametrize(("name", "value"), [("pickle", False), ("max_value", 2000)])
def test_the_settings_of_the_server_hold(
    in_code: bool, name: str, value: Any, monkeypatch: pytest.MonkeyPatch, rehearse: Rehearse
) -> None:
    """Those that it is attached with; those of the environment if it is not."""

    async def keeps(ctx: Context) -> str:
        return str(len(await framehold.once("find", set, range(1000))))

    server = serving(keeps)
    assert rehearse(server, "keeps").text == "1000"
    if in_code:
        framehold.attach(server, Settings(node_id="strict", **{name: value}))
    else:
        monkeypatch.setenv(f"FRAMEHOLD_{name.upper()}", str(value))
    with pytest.raises(RehearsalFailed, match=f"raised ResultNotKept: .*FRAMEHOLD_{name.upper()}"):
        rehearse(server, "keeps")


def test_a_memory_limit_of_production_refuses_no_rehearsal(rehearse: Rehearse) -> None:
    """The process of the tests may be larger than one in production."""

    async def asks(ctx: Context) -> str:
        return said(await ctx.elicit("Well?", Word))

    server = serving(asks)
    framehold.attach(server, Settings(node_id="small", memory_limit=1 << 20))
    assert rehearse(server, "asks", answers=[YES]).text == "yes"


def test_a_node_that_is_closed_on_purpose_loses_no_call(rehearse: Rehearse, caplog: pytest.LogCaptureFixture) -> None:
    """The next node of the rehearsal carries it on, so the log warns of none."""

    async def asks(ctx: Context) -> str:
        return said(await ctx.elicit("Well?", Word))

    assert "rebuild" in played(rehearse, asks, YES).ways
    assert "are lost" not in caplog.text
