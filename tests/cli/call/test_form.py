"""The form of a question at a terminal: each field is asked until its answer fits; defaults; declining."""

from __future__ import annotations

from typing import Any

import pytest

from framehold_cli.call.form import FieldDeclined, fill, prompt


class Person:
    """Types the given lines. Remembers what was shown."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.asked: list[str] = []
        self.told: list[str] = []

    def ask(self, prompt: str) -> str:
        self.asked.append(prompt)
        if not self._lines:
            raise EOFError
        return self._lines.pop(0)

    def fill(self, *required: str, **fields: Any) -> dict[str, Any]:
        content = fill({"type": "object", "properties": fields, "required": required}, self.ask, self.told.append)
        assert not self._lines, f"nobody asked for {self._lines}"
        return content


TITLED = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}
NAMED = {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}
SEVERAL = {"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 1, "maxItems": 2}
SEVERAL_TITLED = {
    "type": "array",
    "items": {"anyOf": [{"const": "a", "title": "Apple"}, {"const": "b", "title": "Pear"}]},
}


@pytest.mark.parametrize(
    ("field", "typed", "value"),
    [
        ({"type": "string"}, " Ada ", "Ada"),
        ({"type": "string"}, "true", "true"),
        ({"type": "integer"}, "-3", -3),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, "2", 2.0),
        ({"type": "boolean"}, "Y", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "string", "enum": ["friday", "saturday"]}, "Sat", "saturday"),
        ({"type": "string", "enum": ["1", "10"]}, "1", "1"),
        (TITLED, "green", "g"),
        (TITLED, "r", "r"),
        (NAMED, "Red", "r"),
        ({"type": "integer", "enum": [1, 2, 3]}, "2", 2),
        ({"type": "integer", "oneOf": [{"const": 1, "title": "Small"}, {"const": 2, "title": "Large"}]}, "large", 2),
        ({"type": "boolean", "enum": [True, False]}, "false", False),
        ({"type": "array", "items": {"type": "integer", "enum": [1, 2]}}, "2,1", [2, 1]),
        (SEVERAL, "a, c", ["a", "c"]),
        (SEVERAL, "a,a", ["a"]),
        (SEVERAL_TITLED, "pear, Apple", ["b", "a"]),
        ({"type": "string", "format": "date"}, "2026-07-28", "2026-07-28"),
        ({"type": "string", "format": "email"}, "a@b.c", "a@b.c"),
    ],
)
def test_what_is_typed_becomes_what_the_field_wants(field: dict[str, Any], typed: str, value: Any) -> None:
    found = Person(typed).fill("x", x=field)["x"]
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("field", "wrong", "right", "says"),
    [
        ({"type": "integer"}, "three", "3", "whole number"),
        ({"type": "integer"}, "3.5", "3", "whole number"),
        ({"type": "integer"}, "9" * 400, "3", "whole number"),
        ({"type": "number"}, "nan", "3", "a number"),
        ({"type": "integer", "minimum": 1, "maximum": 12}, "13", "12", "1 to 12"),
        ({"type": "number", "exclusiveMinimum": 0}, "0", "0.1", "above 0"),
        ({"type": "integer", "maximum": 5}, "6", "5", "up to 5"),
        ({"type": "boolean"}, "perhaps", "n", "y or n"),
        ({"type": "string", "enum": ["window", "garden", "bar"]}, "roof", "bar", "window, garden or bar"),
        ({"type": "string", "enum": ["one", "only"]}, "on", "one", "one or only"),
        ({"type": "string", "minLength": 2, "maxLength": 4}, "x", "xy", "2 to 4 characters"),
        ({"type": "string", "maxLength": 1}, "xy", "x", "up to 1 characters"),
        ({"type": "string", "pattern": "^[A-Z]+$"}, "abc", "ABC", "matches"),
        ({"type": "string", "format": "date"}, "tomorrow", "2026-07-28", "a date"),
        ({"type": "string", "format": "date-time"}, "2026-07-28", "2026-07-28T19:30:00Z", "date and time"),
        ({"type": "string", "format": "email"}, "ada", "ada@x.y", "e-mail"),
        ({"type": "string", "format": "uri"}, "example", "https://x.y", "address"),
        (SEVERAL, "a,b,c", "a,b", "1 to 2"),
        (SEVERAL, "d", "c", "a, b or c"),
    ],
)
def test_what_does_not_fit_is_asked_again(field: dict[str, Any], wrong: str, right: str, says: str) -> None:
    """Before the field is asked again, a line says what fits."""
    person = Person(wrong, right)
    assert "x" in person.fill("x", x=field)
    assert len(person.told) == 1 and says in person.told[0]


def test_an_empty_line_takes_the_default() -> None:
    """A default that is false, zero or a list works too."""
    fields = {"a": {"type": "boolean", "default": False}, "b": {"type": "integer", "default": 0}}
    assert Person("", "", "").fill("a", **fields, c={**SEVERAL, "default": ["a"]}) == {"a": False, "b": 0, "c": ["a"]}


def test_an_empty_line_leaves_an_optional_field_out() -> None:
    assert Person("", "x").fill("b", a={"type": "integer"}, b={"type": "string"}) == {"b": "x"}


def test_two_empty_lines_decline_where_something_is_required() -> None:
    """At each required field the first empty line only warns."""
    person = Person("", "x", "", "")
    with pytest.raises(FieldDeclined):
        person.fill("a", "b", a={"type": "string"}, b={"type": "string"})
    assert person.told == ["  (required; Enter again declines the whole form)"] * 2


def test_an_empty_line_and_an_answer() -> None:
    assert Person("", "x").fill("a", a={"type": "string"}) == {"a": "x"}


def test_the_end_of_all_lines_passes_through() -> None:
    with pytest.raises(EOFError):
        Person("x").fill("a", a={"type": "string"}, b={"type": "string"})


def test_a_question_without_fields_needs_no_line() -> None:
    assert Person().fill() == {}


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        (
            {"type": "integer", "minimum": 1, "maximum": 12, "default": 2, "description": "How many?"},
            "  How many? (1 to 12) [2]: ",
        ),
        ({"type": "boolean", "title": "Candles", "default": True}, "  Candles (y | n) [y]: "),
        ({**TITLED, "default": "g"}, "  x (Red | Green) [Green]: "),
        ({**SEVERAL, "default": ["a", "b"]}, "  x (a | b | c, with commas) [a, b]: "),
        ({"type": "string"}, "  x: "),
        ({"type": "string", "title": "Which day?"}, "  Which day? "),
        ({"type": "string", "format": "date"}, "  x (a date, like 2026-07-28): "),
    ],
)
def test_a_prompt_says_what_may_be_answered(field: dict[str, Any], shown: str) -> None:
    assert prompt("x", field) == shown
