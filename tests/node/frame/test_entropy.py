"""Where the values come from that a token determines: strategy replay (docs/protocol.md, rule 14)."""

from __future__ import annotations

from framehold.frame.entropy import SeededEntropy


def test_a_value_is_its_keys_and_its_calls() -> None:
    """Each branch of a call draws the same under a key, and no other call does."""
    one, branch, other = (SeededEntropy(seed * 16, 7.0, lambda size: b"f" * size) for seed in (b"a", b"a", b"b"))
    assert one.draw("id") == branch.draw("id") and one.now() == branch.now() == 7.0
    assert len({one.draw("id"), one.draw("id 2"), other.draw("id"), one.draw("\ud800")}) == 4
    assert {len(one.draw(key)) for key in ("id", "")} == {16}
    assert one.draw("") == b"f" * 16
