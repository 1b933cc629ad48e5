"""The playground's forms: each kind of field, what doesn't fit, and the requests that are made of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dashboard.asking import FORM
from tests.dashboard.player import Player
from tests.dashboard.stage import Stage
from tests.kit.browser import Screen

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

_FILLED = """async (forms) => {
  const { begun, fieldsOf, filled } = await import("/dashboard/assets/lib/schema.js");
  return forms.map(([schema, raw]) => {
    const fields = fieldsOf(schema);
    return { kinds: fields.map(({ kind }) => kind), ...filled(fields, { ...begun(fields), ...raw }) };
  });
}"""
_EXPANDED = """async ([templates, values]) => {
  const { expanded, variables } = await import("/dashboard/assets/lib/template.js");
  return templates.map((one) => [variables(one).map(({ name }) => name), expanded(one, values)]);
}"""


def value(text: str) -> Any:
    """The JSON that a tool said."""
    return json.loads(text[text.index("{") : text.rindex("}") + 1])


TYPED = {
    "Your name": "Ada",
    "Mail": "ada@example.com",
    "Site": "https://ada.example",
    "Day": "2026-12-24",
    "Hour": "2026-12-24T19:30:00",
    "Guests": "5",
    "Weight": "1.5",
    "Note": "two\nlines",
}
_LOCAL = "() => new Date('2026-12-24T19:30').toISOString().replace('.000', '')"


async def test_each_kind_of_field_of_a_question(player: Player) -> None:
    """A form says what is missing, and sends nothing: the first field that doesn't fit gets the focus. Filled in as a
    person does, the tool gets the values with their types."""
    await player.call("dinner")
    await player.asks("All about your dinner")
    await player.button("Accept").click()
    missing = player.page.locator(".asked:has(.wrong)").locator("> :is(label, legend) > bdi")
    assert await missing.all_inner_texts() == ["Your name", "Mail", "Day", "Meal", "Drinks"]
    focused = "() => document.activeElement.labels[0].innerText"
    assert (await player.page.evaluate(focused)).startswith("Your name")
    described = "() => document.activeElement.getAttribute('aria-describedby').split(' ').at(-1)"
    result = await player.page.evaluate(described)
    assert await player.page.locator(f"#{result}").inner_text() == "It is required."
    assert len(await player.rounds()) == 1
    form = player.page.locator("form.question")
    for label, typed in TYPED.items():
        await form.get_by_label(label).fill(typed)
    await form.get_by_role("group", name="Candles").get_by_label("No").check()
    await form.get_by_label("Place").select_option("window")
    await form.get_by_label("Meal").select_option("Roast")
    for drink in ("tea", "water"):
        await form.get_by_role("group", name="Drinks").get_by_label(drink).check()
    await form.get_by_label("Bread").check()
    await player.button("Accept").click()
    assert value(await player.ended())["content"] == {
        "name": "Ada",
        "mail": "ada@example.com",
        "site": "https://ada.example",
        "day": "2026-12-24",
        "hour": await player.page.evaluate(_LOCAL),
        "guests": 5,
        "weight": 1.5,
        "candles": False,
        "place": "window",
        "meal": "m2",
        "drinks": ["water", "tea"],
        "extras": ["e1", "e2"],
        "note": "two\nlines",
    }


async def test_a_form_begins_with_its_defaults(player: Player) -> None:
    """With what is required it goes; what is left out isn't sent."""
    await player.call("dinner")
    await player.asks("All about your dinner")
    form = player.page.locator("form.question")
    for label in ("Your name", "Mail", "Day"):
        await form.get_by_label(label).fill(TYPED[label])
    await form.get_by_label("Meal").select_option("Soup of the day")
    await form.get_by_label("wine").check()
    await player.button("Accept").click()
    assert value(await player.ended()) == {
        "action": "accept",
        "content": {
            "name": "Ada",
            "mail": "ada@example.com",
            "day": "2026-12-24",
            "guests": 2,
            "candles": True,
            "place": "garden",
            "meal": "m1",
            "drinks": ["wine"],
            "extras": ["e2"],
        },
    }


WRONG = {
    ("name", "A"): "Type 2 to 20 characters.",
    ("mail", "ada at example"): "Type an e-mail address.",
    ("site", "ada.example"): "Type a whole address, as https://example.com.",
    ("guests", "0"): "Type a number: 1 to 12.",
    ("guests", "2.5"): "Type a whole number.",
    ("guests", "many"): "Type a number.",
    ("guests", "1e999"): "Type a number.",
    ("guests", "0x10"): "Type a number.",
    ("weight", "0.4"): "Type a number: 0.5 or more.",
    ("hour", "soon"): "Type a date and a time.",
    ("note", "x" * 401): "Type at most 400 characters.",
    ("drinks", (0, 1, 2)): "Choose 1 to 2.",
    ("meal", ""): "Choose one: it is required.",
}


async def test_what_does_not_fit_is_told_at_its_field(at_fleet: Screen) -> None:
    """Each by its own sentence; its value isn't taken."""
    await at_fleet.open("/nodes")
    forms = [[FORM, {field: list(typed) if isinstance(typed, tuple) else typed}] for field, typed in WRONG]
    found = await at_fleet.page.evaluate(_FILLED, forms)
    result = {case: answer["wrong"].get(case[0]) for case, answer in zip(WRONG, found, strict=True)}
    assert result == WRONG
    assert not any(case[0] in answer["values"] for case, answer in zip(WRONG, found, strict=True))


SCHEMAS: dict[str, tuple[dict[str, Any], str, Any, Any]] = {
    "a reference": ({"$ref": "#/$defs/Size", "default": 3}, "integer", None, 3),
    "one that may be null": ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number", "2.5", 2.5),
    "null, left out": ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number", "", None),
    "a list of types": ({"type": ["string", "null"]}, "text", "x", "x"),
    "one constant": ({"const": 7}, "choice", "0", 7),
    "numbers to choose from": ({"enum": [1, 2]}, "choice", "1", 2),
    "names of 2025": ({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}, "choice", "1", "b"),
    "an object": ({"type": "object"}, "json", '{"a": [1]}', {"a": [1]}),
    "a list": ({"type": "array", "items": {"type": "object"}}, "json", "[1, 2]", [1, 2]),
    "anything": ({}, "json", '"text"', "text"),
    "a pattern that can't be read": ({"type": "string", "pattern": "("}, "text", "x", "x"),
    "spaces are kept": ({"type": "string"}, "text", " x ", " x "),
}


async def test_schemas_of_tools(at_fleet: Screen) -> None:
    """Each makes a field of its kind; what has none is typed as JSON."""
    await at_fleet.open("/nodes")
    whole = {"required": ["a"], "$defs": {"Size": {"type": "integer"}}}
    forms = [
        [{**whole, "properties": {"a": schema}}, {} if typed is None else {"a": typed}]
        for schema, _, typed, _ in SCHEMAS.values()
    ]
    found = await at_fleet.page.evaluate(_FILLED, forms)
    assert dict(zip(SCHEMAS, found, strict=True)) == {
        case: {"kinds": [kind], "values": {"a": wanted}, "wrong": {}} for case, (_, kind, _, wanted) in SCHEMAS.items()
    }


async def test_json_that_does_not_fit(at_fleet: Screen) -> None:
    """It is said whether it is no JSON, or of another type."""
    await at_fleet.open("/nodes")
    schema = {"properties": {"a": {"type": "object"}}}
    broken, other = await at_fleet.page.evaluate(_FILLED, [[schema, {"a": typed}] for typed in ("{", "[]")])
    assert broken["wrong"]["a"].startswith("Type JSON, as")
    assert other["wrong"]["a"].startswith("Type a JSON object, as")


LARGE = {
    "9007199254740991": ("integer", 2**53 - 1),
    "-9007199254740991": ("integer", 1 - 2**53),
    "9007199254740993": ("integer", None),
    "-1129876543210987655": ("integer", None),
    "[1, 9007199254740993]": ("array", None),
    '{"9007199254740993": ["\\"9007199254740993"]}': ("object", {"9007199254740993": ['"9007199254740993']}),
    '{"a": {"b": -1129876543210987655}}': ("object", None),
    "[0.1234567890123456789, 1e300]": ("array", [0.12345678901234568, 1e300]),
}
"""What is typed, the type that is wanted, and what is sent: None if the field refuses it."""


async def test_a_whole_number_is_sent_as_it_was_typed_or_not_at_all(page: Screen) -> None:
    """A browser rounds those of more than 53 bits; the field says what can send them."""
    await page.open("/nodes")
    forms = [[{"properties": {"a": {"type": kind}}}, {"a": typed}] for typed, (kind, _) in LARGE.items()]
    found = await page.page.evaluate(_FILLED, forms)
    assert {typed: one["values"].get("a") for typed, one in zip(LARGE, found, strict=True)} == {
        typed: sent for typed, (_, sent) in LARGE.items()
    }
    assert all("a" in one["values"] or "framehold call" in one["wrong"]["a"] for one in found)


TEMPLATES = {
    "memo://{day}/{who}": (["day", "who"], "memo://a%20b/x%2Fy"),
    "memo://{+who}": (["who"], "memo://x/y"),
    "memo://all{?day,who}": (["day", "who"], "memo://all?day=a%20b&who=x%2Fy"),
    "memo://all{?none}": (["none"], "memo://all"),
    "memo:/{/day}{#who}": (["day", "who"], "memo://a%20b#x/y"),
    "memo://{day:1}": (["day"], "memo://a"),
    "memo://{day*}": (["day"], "memo://a%20b"),
}


async def test_templates(at_fleet: Screen) -> None:
    """As RFC 6570 expands them."""
    await at_fleet.open("/nodes")
    found = await at_fleet.page.evaluate(_EXPANDED, [list(TEMPLATES), {"day": "a b", "who": "x/y"}])
    assert {one: (names, uri) for one, (names, uri) in zip(TEMPLATES, found, strict=True)} == TEMPLATES


async def test_the_arguments_of_a_tool(player: Player) -> None:
    """With its defaults, and JSON for an object; what is left out gets the tool's own default."""
    await player.open("tool", "add")
    page = player.page
    await page.get_by_label("Count").fill("3")
    await page.get_by_label("Label").fill("plums")
    await page.get_by_role("group", name="Ripe").get_by_label("Yes").check()
    await page.get_by_role("group", name="Tags").get_by_label("old").check()
    await page.get_by_label("Address").fill('{"city": "Oslo"}')
    await player.button("Call").click()
    assert value(await player.ended()) == {
        "count": 3,
        "label": "plums",
        "colour": "blue",
        "ripe": True,
        "ratio": None,
        "tags": ["old"],
        "city": "Oslo",
    }


async def test_a_prompt_and_a_resource_and_a_template(player: Player) -> None:
    """Prompts and templates ask like tools; their address has the choice."""
    await player.open("prompt", "letter")
    await player.page.get_by_role("textbox", name="to required").fill("Ada")
    await player.button("Call").click()
    await player.accept("About what?", "engines")
    assert "Write a friendly letter to Ada about engines." in await player.ended()
    await player.button("Resources 1").click()
    await player.page.wait_for_url("**kind=resource*")
    await player.button("Call").click()
    await player.page.locator(".now").get_by_text("water the plants").wait_for()
    await player.button("Templates 1").click()
    await player.page.get_by_label("day").fill("new year")
    await player.page.get_by_label("who").fill("Ada")
    await player.button("Call").click()
    await player.accept("Which list?", "garden")
    await player.page.locator(".now").get_by_text("new year, Ada: garden").wait_for()
    assert "memo://new%20year/Ada" in await player.page.locator(".now").inner_text()


async def test_where_it_is_off(at_fleet: Screen, fleet: Stage) -> None:
    """On a fleet of one's own: there is no way to it, and its page says how it is switched on. Nothing is asked."""
    posted: list[str] = []
    at_fleet.page.on("request", lambda request: posted.append(request.url) if request.method == "POST" else None)
    await at_fleet.open("/playground")
    await at_fleet.sees("The playground of this router is off", "FRAMEHOLD_PLAYGROUND=call")
    assert await at_fleet.page.locator("nav").get_by_text("Playground").count() == 0
    assert await at_fleet.findings() == []
    assert posted == []
