"""The forms for issues. The host leaves out a form that it can't read, and says so to nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

FORMS = Path(__file__).parents[2] / ".github" / "ISSUE_TEMPLATE"
HOME = "https://github.com/framehold/framehold/"


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


@pytest.mark.parametrize("name", ["bug", "docs", "feature"])
def test_a_form_has_what_the_host_needs(name: str) -> None:
    """A name, a description, and fields of known types; each field that takes an answer has a name and a label."""
    form = read(FORMS / f"{name}.yml")
    assert set(form) == {"name", "description", "labels", "body"}
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in fields} <= {"dropdown", "input", "textarea"}
    assert len({field["id"] for field in fields}) == len(fields) > 0
    for field in fields:
        assert field["attributes"]["label"]
        assert bool(field["attributes"].get("options")) == (field["type"] == "dropdown")
    assert any(field["validations"]["required"] for field in fields if "validations" in field)


def test_security_problems_are_sent_elsewhere() -> None:
    links = read(FORMS / "config.yml")["contact_links"]
    assert all(set(link) == {"name", "url", "about"} and link["url"].startswith(HOME) for link in links)
    assert [link["url"] for link in links if "security" in link["name"]] == [f"{HOME}security/advisories/new"]
    assert f"{HOME}security/advisories/new" in (FORMS.parents[1] / "SECURITY.md").read_text("utf-8")
