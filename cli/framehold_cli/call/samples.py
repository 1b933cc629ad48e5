"""Makes arguments from a tool's JSON schema: sample values, and typed texts converted to the schema's types."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from framehold_core.errors import ConfigError

from ..show import visible

Schema = Mapping[str, Any]
_MAX_DEPTH = 12
_BY_FORMAT = {
    "date": "2026-07-28",
    "date-time": "2026-07-28T12:00:00Z",
    "time": "12:00:00Z",
    "email": "ada@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def arguments(schema: Schema) -> dict[str, Any]:
    """A sample value for each required property of a tool's input."""
    return _object(schema, schema, 0)


def sample(schema: Any, root: Schema, depth: int = 0) -> Any:
    """A sample value for `schema`; it may break rules that are hard to satisfy. `root` holds the schema's
    definitions."""
    schema = resolved(schema, root)
    for key in ("const", "default"):
        if schema.get(key) is not None:
            return schema[key]
    for key in ("examples", "enum"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    if depth > _MAX_DEPTH:
        return None
    choices = _choices(schema, root)
    if choices:
        return sample(choices[0], root, depth + 1)
    kind = _kinds(schema, root)[0]
    if kind == "object":
        return _object(schema, root, depth)
    if kind == "array":
        item = sample(schema.get("items", {}), root, depth + 1)
        return [item] * int(schema.get("minItems", 0))
    if kind in ("integer", "number"):
        return _number(schema, kind)
    return {"boolean": True, "null": None}.get(kind, _text(schema))


def typed(text: str, schema: Any, root: Schema) -> Any:
    """Convert a typed text to a value of the schema's type. A string stays as it is; other types are read as JSON.

    Raises:
        ValueError: the text has another type. The message says which type is wanted.
    """
    kinds = _kinds(resolved(schema, root), root)
    if kinds == ["string"]:
        return text
    try:
        value = of_json(text)
    except ValueError:
        value = text
    if _kind_of(value) in kinds or ("number" in kinds and _kind_of(value) == "integer"):
        return value
    if "string" in kinds or "" in kinds:
        return value if "" in kinds else text
    wanted = " or ".join(kinds)
    raise ValueError(f"{text!r} is not of type {wanted}" + (" (as JSON)" if {"array", "object"} & set(kinds) else ""))


def of_json(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is none, a number in it is none of JSON, or it is nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _finite(text: str) -> float:
    """The number of a JSON text. Raises ValueError if JSON has no such number."""
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text} is no number of JSON")
    return number


def parsed(words: Sequence[str], tool: str, schema: Schema) -> dict[str, Any]:
    """Convert `key=value` words to the arguments of `tool`.

    Raises:
        ConfigError: a word has no `=`, its key is unknown or given twice, its value of another type, or an argument is
            missing.
    """
    known: Mapping[str, Any] = schema.get("properties") or {}
    takes = f"{tool} takes {', '.join(known) or 'nothing'}; nothing was called"
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ConfigError(f"{word!r} is not key=value; {takes}")
        if key in found:
            raise ConfigError(f"argument {key} is given twice; nothing was called")
        if key not in known and not schema.get("additionalProperties", "properties" not in schema):
            raise ConfigError(f"there is no argument {key!r}; {takes}")
        try:
            found[key] = in_utf_8(typed(value, known.get(key, {}), schema))
        except ValueError as error:
            raise ConfigError(f"argument {key}: {error}; nothing was called") from None
    missing = [name for name in schema.get("required", ()) if name not in found]
    if missing:
        raise ConfigError(f"missing: {', '.join(f'{name}=...' for name in missing)}; {takes}")
    return found


def in_utf_8(value: Any) -> Any:
    """The JSON value, if a request can hold it.

    Raises:
        ValueError: a text in it is not UTF-8, or it is nested too deeply.
    """
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if visible.encodable(text):
        return value
    raise ValueError(f"{value!r} is not UTF-8")


def resolved(schema: Any, root: Schema) -> Schema:
    """The schema with its `$ref` within `root` replaced. Keys beside `$ref` are kept, as JSON Schema 2020-12
    demands."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, Mapping):
            return {}
        place = schema.get("$ref")
        if not isinstance(place, str) or not place.startswith("#"):
            return schema
        found: Any = root
        for step in place.removeprefix("#").strip("/").split("/"):
            found = found.get(step, {}) if isinstance(found, Mapping) else {}
        schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    return {}


def _choices(schema: Schema, root: Schema) -> list[Any]:
    """The alternatives of a schema; `null` comes last."""
    every = [*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ()), *(schema.get("allOf") or ())[:1]]
    return sorted(every, key=lambda one: resolved(one, root).get("type") == "null")


def _kinds(schema: Schema, root: Schema, depth: int = 0) -> list[str]:
    """The types that a schema allows; "" stands for any type."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list) and kind:
        return sorted(map(str, kind), key=lambda one: one == "null")
    if "properties" in schema:
        return ["object"]
    values = [*(schema.get("enum") or ()), *([schema["const"]] if "const" in schema else [])]
    if values:
        return sorted({_kind_of(value) for value in values})
    choices = _choices(schema, root)
    if choices and depth < _MAX_DEPTH:
        every = [one for choice in choices for one in _kinds(resolved(choice, root), root, depth + 1)]
        return list(dict.fromkeys(every))
    return [""]


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", int: "integer", float: "number"}
    return names.get(type(value), "null")


def _object(schema: Schema, root: Schema, depth: int) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    return {name: sample(properties.get(name, {}), root, depth + 1) for name in schema.get("required", ())}


def _number(schema: Schema, kind: str) -> int | float:
    """A number that fits: `multipleOf` itself, else the multiple nearest to a bound, else the middle of the bounds."""
    step = schema.get("multipleOf") or 1
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    above, below = schema.get("exclusiveMinimum", -math.inf), schema.get("exclusiveMaximum", math.inf)
    least, most = max(low, above), min(high, below)
    tried: list[int | float] = [step]
    if math.isfinite(least):
        tried += [math.ceil(least / step) * step, (math.floor(least / step) + 1) * step]
    if math.isfinite(most):
        tried += [math.floor(most / step) * step, (math.ceil(most / step) - 1) * step]
    fitting = [one for one in tried if low <= one <= high and above < one < below]
    value = fitting[0] if fitting else (least + most) / 2 if math.isfinite(least + most) else step
    return int(value) if kind == "integer" else value


def _text(schema: Schema) -> str:
    text = _BY_FORMAT.get(str(schema.get("format")), "hello")
    least, most = int(schema.get("minLength", 0)), schema.get("maxLength")
    if len(text) < least:
        text = (text * least)[:least]
    return text if most is None else text[: int(most)]
