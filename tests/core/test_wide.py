"""The `_replace` of wide tuples does what a NamedTuple's own does."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from framehold_core.wide import wide


@wide
class Wide(NamedTuple):
    first: int
    second: str = "b"
    third: tuple[int, ...] = ()


def test_the_named_fields_change_and_no_others() -> None:
    before = Wide(1)
    after = before._replace(third=(3,), first=2)
    assert type(after) is Wide
    assert (before, after) == (Wide(1, "b", ()), Wide(2, "b", (3,)))


def test_a_field_that_there_is_none_of() -> None:
    with pytest.raises(KeyError):
        Wide(1)._replace(fourth=4)  # type: ignore[call-arg]
