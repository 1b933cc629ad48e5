"""The JSON schemas of forms. To render one takes a third of a round, so it is kept for models that compute no part of
their schema; each caller gets a copy of its own, equal to what the SDK renders at that moment.

The law: a kept schema is used only while everything is the same that the SDK's rendering reads. For a plain model
(`_is_plain`) that is its core schema, which pydantic replaces when it builds the model again, its name and its
docstring. Any other model is rendered each time: its choices may have been computed.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from mcp.server import elicitation
from mcp.server.elicitation import render_elicitation_schema
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from .. import json_text

MAX_KEPT = 256
"""How many models are remembered: they would stay in memory with their schemas."""
_VALUES = (str, int, float, bool, NoneType)
_HOOKS = ("__get_pydantic_core_schema__", "__get_pydantic_json_schema__", "model_json_schema")


class _Known(NamedTuple):
    core: Any
    described: tuple[str, str | None]
    schema: bytes | None
    """JSON; None if the model is rendered each time."""


_known: dict[type[BaseModel], _Known] = {}


def keep() -> None:
    """Have the SDK render forms by `rendered` from now on, in all servers of this process."""
    elicitation.render_elicitation_schema = rendered


def rendered(schema: Any) -> dict[str, Any]:
    """What `render_elicitation_schema` of the SDK returns for a model: the schema of its form.

    Raises:
        TypeError: a field can't be in a form, or `schema` is no model.
    """
    if not hasattr(schema, "model_json_schema"):
        order = "; the message comes first, then the model" if isinstance(schema, str) else ""
        raise TypeError(f"ctx.elicit(message, schema): the schema must be a pydantic model, not {schema!r:.80}{order}")
    core, described = getattr(schema, "__pydantic_core_schema__", None), (schema.__name__, schema.__doc__)
    known = _known.get(schema)
    if known is not None and known.core is core and known.described == described:
        return render_elicitation_schema(schema) if known.schema is None else _parsed(known.schema)
    made = render_elicitation_schema(schema)
    if len(_known) >= MAX_KEPT:
        _known.clear()
    data = json_text.write(made) if _is_plain(schema) else None
    _known[schema] = _Known(core, described, data if data is None or _parsed(data) == made else None)
    return made


def kept(schema: Any) -> bytes | None:
    """The schema of a model's form (JSON), if `rendered` would return a kept one; else None."""
    known = _known.get(schema) if isinstance(schema, type) else None
    if known is None or known.schema is None or elicitation.render_elicitation_schema is not rendered:
        return None
    core, described = getattr(schema, "__pydantic_core_schema__", None), (schema.__name__, schema.__doc__)
    return known.schema if known.core is core and known.described == described else None


def _parsed(data: bytes) -> dict[str, Any]:
    schema: dict[str, Any] = json_text.read(data)
    return schema


def _is_plain(model: type[BaseModel]) -> bool:
    """Whether no code of the author's, and no object that may change, has a part in the schema of this model."""
    if model.__mro__ != (model, BaseModel, object) or model.model_config:
        return False
    made = model.__pydantic_decorators__
    computed = made.validators or made.field_validators or any(hook in vars(model) for hook in _HOOKS)
    return not computed and all(map(_is_plain_field, model.model_fields.values()))


def _is_plain_field(field: FieldInfo) -> bool:
    if field.json_schema_extra is not None or field.examples is not None or field.field_title_generator is not None:
        return False
    fixed = field.default is PydanticUndefined or type(field.default) in _VALUES
    # Constraints such as `Ge` are frozen.
    constrained = all(type(item).__module__ == "annotated_types" for item in field.metadata)
    return fixed and constrained and _is_plain_type(field.annotation)


def _is_plain_type(annotation: Any) -> bool:
    if annotation in _VALUES:
        return True
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return all(type(part) in _VALUES for part in parts)
    return origin in (Union, UnionType, list) and all(map(_is_plain_type, parts))
