"""The first place where two JSON values differ, as a rehearsal shows it."""

from typing import Any

import pytest

from framehold.frame.difference import difference


@pytest.mark.parametrize(
    ("was", "now", "shown"),
    [
        ({"a": None}, {}, "('r.a', None, absent)"),
        ({}, {"a": None}, "('r.a', absent, None)"),
        ({"a": 1}, {"a": True}, "('r.a', 1, True)"),
        ([1], [1.0], "('r[0]', 1, 1.0)"),
        ([0], [], "('r', [0], [])"),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, "('r.a[0].b', 1, 2)"),
        ({"a": [None, "x", 1.5]}, {"a": [None, "x", 1.5]}, "None"),
    ],
)
def test_values_that_are_other_json_differ(was: Any, now: Any, shown: str) -> None:
    assert str(difference(was, now, "r")) == shown
