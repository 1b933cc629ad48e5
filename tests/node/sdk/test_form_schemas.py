"""The schemas of forms: as the SDK renders them at that moment, and fast only where that is sure."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import pytest
from mcp.server import elicitation
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, field_validator

import framehold
from framehold.sdk import form_schemas
from tests.kit.serving import serving

pytestmark = pytest.mark.anyio

TABLES: list[Any] = []
"""What may be chosen now."""
original = vars(form_schemas)["render_elicitation_schema"]


@pytest.fixture(autouse=True)
def tables() -> None:
    TABLES[:] = ["window"]


class ByField(BaseModel):
    table: str = Field(json_schema_extra=lambda schema: schema.update(enum=list(TABLES)))


class ByList(BaseModel):
    table: str = Field(json_schema_extra={"enum": TABLES})


class ByModel(BaseModel):
    model_config = ConfigDict(json_schema_extra=lambda schema: schema["properties"]["table"].update(enum=list(TABLES)))
    table: str


class _Hook(BaseModel):
    table: str

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core)
        schema["properties"]["table"]["enum"] = list(TABLES)
        return schema


class ByHook(_Hook):
    """It inherits the hook."""


class Table(str):
    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return handler(str)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "enum": list(TABLES)}


class ByType(BaseModel):
    table: Table


class ByValidator(BaseModel):
    table: str

    @field_validator("table", mode="plain", json_schema_input_type=Table)
    @classmethod
    def _any(cls, value: Any) -> Any:
        return value


class Described(BaseModel):
    """First."""

    table: str


def _describe() -> None:
    Described.__doc__ = " ".join(["Now:", *TABLES])


class Rebuilt(BaseModel):
    table: str = "window"


def _rebuild() -> None:
    Rebuilt.model_fields["table"].default = TABLES[-1]
    Rebuilt.model_rebuild(force=True)


def nothing() -> None:
    """Do nothing: the model itself reads what may be chosen."""


@pytest.mark.parametrize(
    ("model", "change"),
    [
        (ByField, nothing),
        (ByList, nothing),
        (ByModel, nothing),
        (ByHook, nothing),
        (ByType, nothing),
        (ByValidator, nothing),
        (Described, _describe),
        (Rebuilt, _rebuild),
    ],
    ids=lambda item: item.__name__,
)
def test_what_is_computed_is_rendered_each_time(model: type[BaseModel], change: Callable[[], None]) -> None:
    change()
    first = form_schemas.rendered(model)
    assert first == original(model)
    TABLES.append("garden")
    change()
    second = form_schemas.rendered(model)
    assert second == original(model) != first


class Ordinary(BaseModel):
    name: str = Field(title="Your name", description="As on the passport", min_length=1, max_length=40)
    row: int | None = Field(None, ge=1, le=40)
    price: float = 1.5
    sure: bool
    meal: Literal["soup", "fish"] = "soup"
    days: list[Literal["mo", "tu"]] = Field(default_factory=list)


def test_an_ordinary_form_is_rendered_once() -> None:
    rendered: list[Any] = []

    def counted(model: Any) -> Any:
        rendered.append(model)
        return original(model)

    forms = form_schemas.FormSchemas(counted, form_schemas.is_plain)
    first, second = forms(Ordinary), forms(Ordinary)
    assert rendered == [Ordinary]
    assert first == second == original(Ordinary) and list(first["properties"]) == list(second["properties"])
    second["properties"].clear()
    assert forms(Ordinary) == first


def test_no_more_models_are_kept_than_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """An author may make one for each question."""
    monkeypatch.setattr(form_schemas, "MAX_KEPT", 3)
    forms = form_schemas.FormSchemas(original, form_schemas.is_plain)
    for number in range(10):
        made = type(f"Made{number}", (BaseModel,), {"__annotations__": {"word": "str"}})
        assert forms(made)["title"] == f"Made{number}"
    assert len(forms.known) <= 3


ANSWERS = (
    {"action": "accept", "content": {"name": "Ada", "sure": True}},
    {"action": "accept", "content": {"name": "Ada", "sure": "perhaps", "row": 99}},
    {"action": "accept", "content": {}},
    {"action": "accept"},
    {"action": "decline"},
    {"action": "decline", "content": {"name": "Ada", "sure": True}},
    {"action": "cancel"},
)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer['action']} {answer.get('content')}")
async def test_an_answer_to_a_kept_form_is_read_as_the_sdk_reads_it(answer: dict[str, Any]) -> None:
    heard: list[Any] = []

    async def both(ctx: Context) -> str:
        for asks in (ctx.elicit, partial(elicitation.elicit_with_validation, ctx.session)):
            try:
                heard.append(await asks("Where?", Ordinary))
            except ValueError as error:
                heard.append((type(error), str(error), type(error.__cause__), str(error.__cause__)))
        return "done"

    form_schemas.rendered(Ordinary)
    assert form_schemas.kept(Ordinary) is not None
    async with serving(both) as caller:
        first = await caller.call("both")
        second = await caller.retry("both", first.token, dict.fromkeys(first.asked, answer))
        done = await caller.retry("both", second.token, dict.fromkeys(second.asked, answer))
        assert done.text == "done"
    assert heard[0] == heard[1] and type(heard[0]) is type(heard[1])


def test_a_form_that_may_have_changed_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that was not rendered yet, or that another rendering than Framehold's has to make."""
    monkeypatch.setattr(form_schemas, "_forms", form_schemas.FormSchemas(original, form_schemas.is_plain))
    assert form_schemas.kept(Ordinary) is form_schemas.kept("Where?") is form_schemas.kept({}) is None
    for model in (Ordinary, ByList, Described):
        form_schemas.rendered(model)
    assert form_schemas.kept(ByList) is None and form_schemas.kept(Ordinary) is not None
    assert form_schemas.kept(Described) is not None
    monkeypatch.setattr(Described, "__doc__", "Another one.")
    assert form_schemas.kept(Described) is None
    monkeypatch.setattr(elicitation, "render_elicitation_schema", original)
    assert form_schemas.kept(Ordinary) is None


async def test_a_deprecated_call_is_shown_where_its_author_wrote_it() -> None:
    """Framehold's own module passes the call on without a warning of its own."""

    async def logs(ctx: Context) -> str:
        await ctx.info("hello")
        await ctx.session.send_log_message("info", "hello")
        return "done"

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        async with serving(logs) as caller:
            assert (await caller.call("logs")).text == "done"
    places = {one.filename for one in shown if issubclass(one.category, MCPDeprecationWarning)}
    assert __file__ in places
    assert not [place for place in places if place.startswith(framehold.__path__[0])]
