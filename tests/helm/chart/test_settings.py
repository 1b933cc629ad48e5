"""Whatever a process can be told, the chart can tell it: in the same range, under the same name in camelCase."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic_settings import BaseSettings

from framehold.config import Settings
from framehold_fleet.config import FleetSettings
from framehold_router.config import RouterSettings
from tests.helm.chart.render import CHART

pytestmark = pytest.mark.chart

DECIDED = {
    "store_url",
    "secrets_dir",
    "keys",
    "router_keys",
    # The chart's nodes are reached by their addresses, without TLS.
    "fleet_ca",
    "admin_token",
    "read_token",
    "node_id",
    "advertise_url",
    "allowed_hosts",
    "allowed_origins",
    # For a laptop: it calls tools from the dashboard, and kills nodes.
    "playground",
}
"""Settings that have other values of the chart, or none: the chart works them out, or leaves them off."""
DIFFERENT = {
    # "" stands for what the chart works out.
    "namespace": {"type": "string", "pattern": "^$|^[0-9A-Za-z][0-9A-Za-z_.-]{0,62}$"},
    "log_level": {"enum": ["debug", "info", "warning", "error"]},
    "memory_limit": {
        "type": ["integer", "string"],
        "exclusiveMinimum": 0,
        "pattern": "^[0-9]+(\\.[0-9]+)? ?([kmgtKMGT]i?)?[bB]?$",
    },
    "trace_url": {"type": "string", "pattern": r"^(https?://.*\{trace_id\}.*)?$"},
}
"""What a field's own schema can't say: a validator does."""
SECTIONS = [
    pytest.param(FleetSettings, (), ("settings",), id="settings"),
    pytest.param(Settings, FleetSettings.model_fields, ("node", "settings"), id="node.settings"),
    pytest.param(RouterSettings, FleetSettings.model_fields, ("router", "settings"), id="router.settings"),
]


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def allowed(path: tuple[str, ...]) -> dict[str, Any]:
    """What the chart's schema allows under that value, without the words."""
    spot = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    for key in path:
        spot = spot["properties"][key]
    assert spot["additionalProperties"] is False
    return {
        name: {key: of for key, of in text.items() if key != "description"} for name, text in spot["properties"].items()
    }


def limits(field: dict[str, Any]) -> dict[str, Any]:
    """What a field allows. An enumeration needs no type; of a field that may be None the rest counts."""
    field = next((kind for kind in field.get("anyOf", ()) if kind.get("type") != "null"), field)
    keys = ("enum",) if "enum" in field else ("type", "exclusiveMinimum", "minimum", "maximum")
    return {key: field[key] for key in keys if key in field}


@pytest.mark.parametrize(("kind", "others", "path"), SECTIONS)
def test_the_schema_allows_each_setting_what_its_process_does(
    kind: type[BaseSettings], others: Any, path: tuple[str, ...]
) -> None:
    """Both ways: a setting that a process has, and one that it no longer has."""
    fields = kind.model_json_schema()["properties"]
    own = {name: field for name, field in fields.items() if name not in others and name not in DECIDED}
    assert allowed(path) == {camel(name): DIFFERENT.get(name) or limits(field) for name, field in own.items()}
