"""`docs/settings.md` names every setting, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from framehold.config import Settings
from framehold_router.config import RouterSettings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


def test_every_setting_has_a_row() -> None:
    """With its full name, so that it can be searched for."""
    known = {f"FRAMEHOLD_{name.upper()}" for kind in (Settings, RouterSettings) for name in kind.model_fields}
    rows = re.findall(r"(?m)^\| (`FRAMEHOLD_.*?) \|", PAGE.read_text(encoding="utf-8"))
    named = re.findall(r"FRAMEHOLD_[A-Z_]+", " ".join(rows))
    assert set(named) == known, f"add {sorted(known - set(named))}, take out {sorted(set(named) - known)}"
    assert len(named) == len(known), "a setting has two rows"
