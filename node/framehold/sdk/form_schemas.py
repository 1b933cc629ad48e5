"""The JSON schemas of forms. To render one takes a third of a round, so it is kept for models that compute no part of
their schema; each caller gets a copy of its own, equal to what the SDK renders at that moment.

The law: a kept schema is used only while everything is the same that the SDK's rendering reads. For a plain model
(`is_plain`) that is its core schema, which pydantic replaces when it builds the model again, its name and its
docstring. Any other model is rendered each time: its choices may have been computed.
"""

from __future__ import annotations

from collections.abc import Callable
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


class _Kept(NamedTuple):
    """The schema of a plain type (JSON), and what its rendering has read that may change."""

    schema: bytes
    core: Any
    described: tuple[str, str | None]


class FormSchemas:
    """Renders the schemas of forms by `render`, and keeps those of types for which `is_plain` holds."""

    def __init__(self, render: Callable[[Any], dict[str, Any]], is_plain: Callable[[Any], bool]) -> None:
        self._render, self._is_plain = render, is_plain
        self.known: dict[Any, _Kept] = {}

    def __call__(self, form: Any) -> dict[str, Any]:
        """What `render` returns for a type. Raises what that raises."""
        if not self._is_plain(form):
            return self._render(form)
        if (schema := self.kept(form)) is not None:
            return _parsed(schema)
        made = self._render(form)
        data = json_text.write(made)
        if _parsed(data) == made:
            if len(self.known) >= MAX_KEPT:
                self.known.clear()
            self.known[form] = _Kept(
                data, getattr(form, "__pydantic_core_schema__", None), (form.__name__, form.__doc__)
            )
        return made

    def kept(self, form: Any) -> bytes | None:
        """The schema that is kept of a type (JSON), if the type would be rendered to the same now; else None."""
        known = self.known.get(form)
        if known is None or known.core is not getattr(form, "__pydantic_core_schema__", None):
            return None
        return known.schema if known.described == (form.__name__, form.__doc__) else None


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
    return _forms(schema)


def kept(schema: Any) -> bytes | None:
    """The schema of a model's form (JSON), if `rendered` would return a kept one; else None."""
    if not isinstance(schema, type) or elicitation.render_elicitation_schema is not rendered:
        return None
    return _forms.kept(schema)


def _parsed(data: bytes) -> dict[str, Any]:
    schema: dict[str, Any] = json_text.read(data)
    return schema


def is_plain(model: Any) -> bool:
    """Whether no code of the author's, and no object that may change, has a part in the schema of this model."""
    if getattr(model, "__mro__", ()) != (model, BaseModel, object) or model.model_config:
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
    return fixed and constrained and is_plain_type(field.annotation)


def is_plain_type(annotation: Any) -> bool:
    """Whether a type consists of plain values and literals of them."""
    if annotation in _VALUES:
        return True
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return all(type(part) in _VALUES for part in parts)
    return origin in (Union, UnionType, list) and all(map(is_plain_type, parts))


_forms = FormSchemas(render_elicitation_schema, is_plain)
