"""Asks for the fields of a question's form at the terminal. Each field is asked again until its value fits.

An empty line takes the default. Without a default an empty line leaves an optional field out. In a required field
without a default, a second empty line declines the form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any
from urllib.parse import urlsplit

from .samples import in_utf_8

Ask = Callable[[str], str]
"""Shows a prompt and returns the line that was typed. Raises EOFError at the end of the input."""
Show = Callable[[str], None]
"""Prints one line."""
Field = Mapping[str, Any]
"""The JSON schema of one field."""

_YES, _NO = ("y", "yes", "true", "1", "on"), ("n", "no", "false", "0", "off")


class FieldDeclined(Exception):
    """A required field was left empty twice."""


def fill(schema: Mapping[str, Any], ask: Ask, show: Show) -> dict[str, Any]:
    """Ask for all fields of a form; return its content, without the optional fields that were left out.

    Raises:
        Declined: a required field without a default was left empty twice.
        EOFError: the input is at its end.
    """
    required = schema.get("required") or ()
    content: dict[str, Any] = {}
    for name, field in (schema.get("properties") or {}).items():
        value = _filled(name, field, name in required, ask, show)
        if value is not None:
            content[name] = value
    return content


def _filled(name: str, field: Field, required: bool, ask: Ask, show: Show) -> Any:
    warned = False
    while True:
        typed = ask(prompt(name, field)).strip()
        if not typed:
            if field.get("default") is not None:
                return field["default"]
            if not required:
                return None
            if warned:
                raise FieldDeclined
            warned = True
            show("  (required; Enter again declines the whole form)")
            continue
        try:
            return value(typed, field)
        except ValueError as error:
            show(f"  {error}")


def prompt(name: str, field: Field) -> str:
    """The prompt of a field: its description, the values that it allows, and the default."""
    text = str(field.get("description") or field.get("title") or name)
    hint = _hint(field)
    default = field.get("default")
    shown = "" if default is None else f" [{_shown(default, field)}]"
    asked = f"{text}{f' ({hint})' if hint else ''}{shown}"
    return f"  {asked} " if asked.endswith(("?", ":")) else f"  {asked}: "


def value(typed: str, field: Field) -> Any:
    """Convert the typed text to a value of the field's type.

    Raises:
        ValueError: the text doesn't fit the field. The message says what fits.
    """
    typed = in_utf_8(typed)
    if field.get("type") == "array":
        return _several(typed, field)
    if options := choices(field):
        return _values(field)[_chosen(typed, options)]
    kind = field.get("type")
    if kind == "boolean":
        return _boolean(typed)
    if kind in ("integer", "number"):
        return _number(typed, field, whole=kind == "integer")
    return _text(typed, field)


def choices(field: Field) -> dict[str, str]:
    """The values that a field allows, as texts, with the title of each; empty if the field is not a choice."""
    return {str(one): title for one, title in _titled(field)}


def _values(field: Field) -> dict[str, Any]:
    """The values that a field allows, by their texts."""
    return {str(one): one for one, _ in _titled(field)}


def _titled(field: Field) -> list[tuple[Any, str]]:
    if field.get("type") == "array":
        return _titled(field.get("items") or {})
    titled = field.get("oneOf") or field.get("anyOf") or ()
    found = [(one["const"], str(one.get("title", one["const"]))) for one in titled if "const" in one]
    values = field.get("enum") or ()
    names = field.get("enumNames") or ()
    return found or [
        (one, str(name)) for one, name in zip(values, names if len(names) == len(values) else values, strict=True)
    ]


def _chosen(typed: str, options: Mapping[str, str]) -> str:
    if typed in options:
        return typed
    folded = typed.casefold()
    # A whole title or value comes before the beginning of a title.
    found = [one for one, title in options.items() if folded in (title.casefold(), one.casefold())]
    if len(found) != 1:
        starting = [one for one, title in options.items() if title.casefold().startswith(folded)]
        found = found or starting
    if len(found) == 1:
        return found[0]
    raise ValueError(f"please answer {_listed(options)}")


def _several(typed: str, field: Field) -> list[Any]:
    options, values = choices(field), _values(field)
    words = [word.strip() for word in typed.split(",") if word.strip()]
    found = list(dict.fromkeys(values[_chosen(word, options)] if options else word for word in words))
    least, most = field.get("minItems", 0), field.get("maxItems", math.inf)
    if not least <= len(found) <= most:
        raise ValueError(f"please choose {_span(least or None, field.get('maxItems'))}, with commas between them")
    return found


def _boolean(typed: str) -> bool:
    if typed.casefold() in _YES:
        return True
    if typed.casefold() in _NO:
        return False
    raise ValueError("please answer y or n")


def _number(typed: str, field: Field, whole: bool) -> int | float:
    try:
        number: int | float = int(typed) if whole else float(typed)
        is_finite = math.isfinite(number)
    except (ValueError, OverflowError):
        raise ValueError("please type a whole number" if whole else "please type a number") from None
    low, high = field.get("minimum", -math.inf), field.get("maximum", math.inf)
    above, below = field.get("exclusiveMinimum", -math.inf), field.get("exclusiveMaximum", math.inf)
    if not is_finite:
        raise ValueError("please type a number")
    if not (low <= number <= high and above < number < below):
        raise ValueError(f"please type a number {_span(*_bounds(field))}")
    return number


def _text(typed: str, field: Field) -> str:
    least, most = field.get("minLength", 0), field.get("maxLength", math.inf)
    if not least <= len(typed) <= most:
        raise ValueError(f"please type {_span(least or None, field.get('maxLength'))} characters")
    pattern = field.get("pattern")
    if pattern is not None and re.search(pattern, typed) is None:
        raise ValueError(f"please type something that matches {pattern}")
    if not _has_format(typed, field.get("format")):
        raise ValueError(f"please type {_FORMATS[field['format']]}")
    return typed


_FORMATS = {
    "email": "an e-mail address",
    "uri": "a whole address, like https://example.com",
    "date": "a date, like 2026-07-28",
    "date-time": "a date and time, like 2026-07-28T19:30:00Z",
}


def _has_format(typed: str, form: Any) -> bool:
    try:
        if form == "date":
            date.fromisoformat(typed)
        elif form == "date-time":
            return datetime.fromisoformat(typed).tzinfo is not None
        elif form == "uri":
            return bool(urlsplit(typed).scheme)
    except ValueError:
        return False
    return form != "email" or re.fullmatch(r"[^@\s]+@[^@\s]+", typed) is not None


def _hint(field: Field) -> str:
    options = choices(field)
    if options:
        return " | ".join(options.values()) + (", with commas" if field.get("type") == "array" else "")
    if field.get("type") == "boolean":
        return "y | n"
    if field.get("type") in ("integer", "number"):
        return _span(*_bounds(field))
    form = field.get("format")
    return _FORMATS.get(form, "") if isinstance(form, str) else ""


def _bounds(field: Field) -> tuple[Any, Any]:
    low, high = field.get("minimum"), field.get("maximum")
    above, below = field.get("exclusiveMinimum"), field.get("exclusiveMaximum")
    return (low if above is None else f"above {above}"), (high if below is None else f"below {below}")


def _span(low: Any, high: Any) -> str:
    if low is not None and high is not None:
        return str(low) if low == high else f"{low} to {high}"
    if low is not None:
        return f"{low} or more" if not isinstance(low, str) else low
    return "" if high is None else f"up to {high}" if not isinstance(high, str) else high


def _listed(options: Mapping[str, str]) -> str:
    *others, last = options.values()
    return f"{', '.join(others)} or {last}" if others else last


def _shown(default: Any, field: Field) -> str:
    if isinstance(default, bool):
        return "y" if default else "n"
    options = choices(field)
    if isinstance(default, list):
        return ", ".join(options.get(str(one), str(one)) for one in default)
    return options.get(str(default), str(default))
