"""Row 10: a handler's code changed between two rounds of a call."""

from __future__ import annotations

import pytest

from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import Trial, Trials

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]


async def redeployed(made: FaultyFleet, call: Trial) -> str:
    """A call that waits in its second round, and whose node was replaced by one that asks something else there; where
    that is."""
    await call.begin(made.url(made.other()))
    owner = call.owner
    await call.insist(made.url(owner))
    assert call.heard.messages == [f"{call.name} two?"]
    await made.restarted(owner, EDITION="three")
    return owner


async def test_a_reentrant_call_diverges_by_name_and_nothing_is_run_again(made: FaultyFleet, trial: Trials) -> None:
    """Its journal stays as it is: where the code is what it was, the call goes on."""
    call = trial("changing", MARKED)
    changed = await redeployed(made, call)
    result = await call.insist(made.url(changed))
    assert result.result["isError"] and "came to something else than it did before" in result.text
    log = made.nodes[changed].log()
    (line,) = [line for line in log.splitlines() if "can't be continued here" in line]
    assert f"{call.name} two?" in line and f"{call.name} three?" in line
    made.kill(changed)
    assert await call.finish(made.url(made.other())) == call.done
    assert made.ledger.effects(call.name) == ["first", "second"]


async def test_an_unmarked_call_is_not_entered_again(made: FaultyFleet, trial: Trials) -> None:
    """Whatever its code is now."""
    call = trial("changing", UNMARKED)
    changed = await redeployed(made, call)
    result = await call.insist(made.url(changed))
    assert result.result["isError"] and "stopped at an unknown point after round 2 of its questions" in result.text
    made.kill(changed)
    assert made.ledger.count(call.name, "entered") == 1
