"""What of a server's text a terminal gets."""

from __future__ import annotations

import unicodedata

import pytest

from framehold_cli.show import visible

HIDDEN = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def test_nothing_unseen_is_passed_on() -> None:
    """No control, no format character, no separator of lines, no half of a pair; of all of Unicode."""
    assert {"\x1b", "\x9b", "\xad", "\u061c", "\u202e", "\u2066", "\ufeff", "\U000e0041", "\ud800"} <= set(HIDDEN)
    for char in HIDDEN:
        shown = visible.line(f"a{char}b")
        assert shown == f"a{char}b" if char in "\u200c\u200d" else shown.isprintable() and "\\" in shown, ascii(char)


@pytest.mark.parametrize("text", ["plain", "größer", "日本", "👩‍👩‍👧", "a\u200cb", "\u0301", "\U0010fffd"])
def test_what_can_be_seen_stays(text: str) -> None:
    assert visible.line(text) == visible.block(text) == text


def test_a_block_keeps_its_lines() -> None:
    assert visible.block("a\r\nb\tc\x1b[2J") == "a\nb\tc\\x1b[2J"
    assert visible.line("a\nb\t") == "a\\nb\\t"
