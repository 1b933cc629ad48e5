"""Every form of every version is read by the code that is here now, and the newest one is what it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.compat import write
from tests.compat.dumps import FIXTURES, versions
from tests.compat.forms import Meaning, pairs
from tests.compat.write import FORMS


def _samples(*wanted: str) -> list[Any]:
    found = []
    for version in wanted:
        for form in FORMS:
            path = FIXTURES / version / f"{form}.json"
            for number, pair in enumerate(json.loads(path.read_text()) if path.exists() else []):
                found.append(pytest.param(form, pair, id=f"{version} {form} {number}"))
    return found


def _as_said(found: Any, means: Any) -> Any:
    """`found` as far as `means` speaks of it: what a later release knows besides is its own."""
    if isinstance(found, dict) and isinstance(means, dict):
        return {name: _as_said(value, means.get(name)) for name, value in found.items() if name in means}
    return found


@pytest.mark.parametrize(("form", "pair"), _samples(*versions()))
def test_what_a_version_wrote_is_read_as_what_it_meant(form: str, pair: Meaning) -> None:
    """Entries with their values opened, tokens with their claims, names and events."""
    assert _as_said(FORMS[form].read(pair["is"]), pair["means"]) == pair["means"]


@pytest.mark.parametrize("form", FORMS)
def test_the_newest_version_is_what_is_written_now(form: str) -> None:
    """Byte for byte, with the same nonces, every sample: kinds, lanes, codecs and tags are all there. Where this fails
    a format has changed under its old name: give it a version of its own, which a release reads before the next one
    writes it (README.md)."""
    assert json.loads((FIXTURES / versions()[-1] / f"{form}.json").read_text()) == pairs(FORMS[form])


@pytest.mark.parametrize("version", ["v1", "", "1", "vx", "../v9"])
def test_a_version_that_is_there_or_is_none_is_not_written(version: str) -> None:
    before = {path: path.read_bytes() for path in FIXTURES.rglob("*.json")}
    with pytest.raises(SystemExit, match="nothing was written"):
        write.main(version)
    assert {path: path.read_bytes() for path in FIXTURES.rglob("*.json")} == before
    assert all(Path(name).name == name for name in versions())
