"""The judge of the verdict under mixed faults finds what is false and what is not named."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace
from typing import Any

from tests.fleet.truth import PATIENCE, Truth
from tests.fleet.weather import Fault


def judged(*faults: Fault, problems: tuple[tuple[str, str], ...]) -> Truth:
    weather: Any = SimpleNamespace(faults=list(faults))
    truth, now = Truth(SimpleNamespace(routers=()), weather), time.monotonic()  # type: ignore[arg-type]  # as much as it asks
    for kind, node in problems:
        truth._judge({"kind": kind, "node": node, "text": "so"}, now)
    return truth


def test_a_problem_needs_a_fault_of_its_node_and_its_time() -> None:
    now = time.monotonic()
    long_ago = Fault("partition", "n2", now - 100.0, now - 90.0)
    under_way = Fault("partition", "n1", now - 5.0)
    said = (("node_unreachable", "n1"), ("node_unreachable", "n2"), ("node_unreachable", "n3"), ("store_full", ""))
    truth = judged(long_ago, under_way, problems=said)
    assert sorted(truth.false) == ["node_unreachable n2", "node_unreachable n3", "store_full "]
    assert truth.seen == {"node_unreachable": 1}


def test_a_fault_that_lasts_must_be_named_in_time() -> None:
    now = time.monotonic()
    old, fresh = now - PATIENCE - 1.0, now - 1.0
    faults = (
        Fault("node killed", "n1", old, old),
        Fault("node killed", "n2", old, old),
        Fault("node killed", "n3", fresh, fresh),
        Fault("router killed", "", old, old),
        Fault("node stopped", "n4", old, math.inf),
        Fault("node killed", "n5", old, old),
    )
    truth = judged(*faults, problems=(("node_lost", "n1"),))
    truth.belonged = {"n1", "n2", "n3", "n4"}
    assert truth.silent() == ["node killed n2", "router killed"], "n5 has never had a lease"
