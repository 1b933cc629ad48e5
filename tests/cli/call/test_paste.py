"""Commands to paste: quoted for a shell, with arguments that the tool's schema allows."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import jsonschema
import pytest
from mcp.types import Tool
from pydantic import BaseModel, Field

from framehold_cli.call import paste, samples
from framehold_core.errors import ConfigError

NASTY = ["it's", '"quoted"', "$HOME `id` \\", "two\nlines", "ünï — 名", "-x", "a=b", "", "!!"]


def tool(name: str = "t", **properties: Any) -> Tool:
    return Tool(name=name, input_schema={"type": "object", "properties": properties, "required": list(properties)})


def words(line: str) -> list[str]:
    """The words of a command, as a shell splits it."""
    show = "import sys, json; print(json.dumps(sys.argv[1:]))"
    line = f'run() {{ {shlex.quote(sys.executable)} -c {shlex.quote(show)} "$@"; }}\nrun {line}'
    result = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True, timeout=20)
    found: list[str] = json.loads(result.stdout)
    return found


def test_a_shell_reads_what_was_meant() -> None:
    """Quotes, dollar signs, line ends and non-ASCII letters arrive unchanged, in both commands."""
    nasty = tool("t", **{f"a{number}": {"type": "string", "default": text} for number, text in enumerate(NASTY)})
    arguments = {f"a{number}": text for number, text in enumerate(NASTY)}
    called = words(paste.call(nasty, "http://127.0.0.1:8080/mcp"))
    assert samples.parsed(called[called.index("t") + 1 :], "t", nasty.input_schema) == arguments
    sent = words(paste.curl(nasty, "http://127.0.0.1:8080/mcp"))
    body = json.loads(sent[sent.index("-d") + 1])
    assert body["params"]["name"] == "t" and body["params"]["arguments"] == arguments


def test_the_curl_line_holds_all_that_a_round_needs() -> None:
    """It has the headers that repeat fields of the body, and the client's identity, which replaces a session."""
    sent = words(paste.curl(tool("prüfen", city={"type": "string", "x-mcp-header": "City"}), "http://h:1/mcp"))
    headers = dict(word.split(": ", 1) for word in sent if ": " in word and not word.startswith("{"))
    assert "http://h:1/mcp" in sent
    assert headers["mcp-protocol-version"] == "2026-07-28"
    assert headers["mcp-method"] == "tools/call"
    assert headers["mcp-name"].startswith("=?base64?")
    assert headers["Mcp-Param-City"] == "hello"
    assert headers["accept"] == "application/json, text/event-stream"
    assert headers["content-type"] == "application/json"
    meta = json.loads(sent[sent.index("-d") + 1])["params"]["_meta"]
    assert meta["io.modelcontextprotocol/clientCapabilities"]["elicitation"] == {"form": {}}


def test_the_call_line_names_the_address_only_where_it_must() -> None:
    usual = paste.call(tool(), "http://127.0.0.1:8080/mcp")
    assert "--url" not in usual and "--port" not in usual
    assert words(paste.call(tool("-odd"), "http://127.0.0.1:9/mcp"))[-4:] == ["--port", "9", "--", "-odd"]
    assert words(paste.call(tool("odd"), "http://h:9/mcp"))[-3:] == ["--url", "http://h:9", "odd"]


def test_the_program_is_named_so_that_the_shell_finds_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By its name if PATH finds this installation, else by its path: also where uv has set PATH for this process."""
    program = tmp_path / "bin" / "framehold"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.delenv("UV", raising=False)
    assert paste.program() == ["framehold"]
    monkeypatch.setenv("UV", "/usr/bin/uv")
    assert paste.program() == [str(program)]
    monkeypatch.delenv("UV")
    monkeypatch.setenv("PATH", "/nowhere")
    assert paste.program() == [str(program)]
    monkeypatch.chdir(tmp_path)
    assert paste.program() == ["bin/framehold"]
    monkeypatch.chdir(program.parent)
    assert paste.program() == ["./framehold"]
    program.unlink()
    assert paste.program() == [str(program.with_name("python")), "-m", "framehold"]


class Inner(BaseModel):
    colour: Literal["red", "green"]
    many: list[int] = Field(min_length=2)


class Everything(BaseModel):
    """A selection of what the schemas of real tools contain."""

    text: str
    short: str = Field(max_length=3)
    long: str = Field(min_length=12)
    whole: int = Field(ge=5, le=7)
    few: int = Field(le=-3)
    step: int = Field(gt=7, multiple_of=5)
    part: float = Field(gt=0, lt=0.5)
    yes: bool
    perhaps: int | None
    either: list[str] | str
    one: Literal["only"]
    inner: Inner
    several: list[Inner]
    table: dict[str, int]
    anything: Any
    left_out: str = "default"


def test_samples_are_what_the_schema_allows() -> None:
    """The samples are valid, and contain only required properties."""
    schema = Everything.model_json_schema()
    found = samples.arguments(schema)
    jsonschema.validate(found, schema)
    assert "left_out" not in found


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, {"anyOf": []}]
)
def test_odd_schemas_end(schema: dict[str, Any]) -> None:
    """A schema that refers to itself causes no endless loop."""
    samples.sample(schema, schema)
    samples.arguments({"properties": {"a": schema}, "required": ["a"], **schema})


@pytest.mark.parametrize(
    ("schema", "text", "wanted"),
    [
        ({"type": "string"}, "12", "12"),
        ({"type": "string"}, "", ""),
        ({"type": "integer"}, "12", 12),
        ({"type": "number"}, "12", 12),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "boolean"}, "true", True),
        ({"type": "array", "items": {"type": "string"}}, '["a"]', ["a"]),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "null", None),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "12", 12),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "12", "12"),
        ({"type": ["string", "null"]}, "x", "x"),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"enum": [1, 2]}, "1", 1),
        ({}, "12", 12),
        ({}, "twelve", "twelve"),
        ({"$ref": "#/$defs/n"}, "3", 3),
    ],
)
def test_values_are_read_by_the_schema(schema: dict[str, Any], text: str, wanted: Any) -> None:
    """A typed text becomes the type of the schema; strings stay strings."""
    assert samples.typed(text, schema, {"$defs": {"n": {"type": "integer"}}}) == wanted


NO_JSON = ("NaN", "-Infinity", "1e999", "[" * 5_000, "[" * 5_000 + "]" * 5_000)


@pytest.mark.parametrize("text", NO_JSON)
def test_what_json_can_not_say_is_a_text(text: str) -> None:
    """Such a number would have been sent as null."""
    for schema in ({"type": "number"}, {"type": "array", "items": {"type": "number"}}):
        with pytest.raises(ValueError, match="is not of type"):
            samples.typed(text, schema, {})
    with pytest.raises(ValueError, match="is not of type"):
        samples.typed(f"[{text}]", {"type": "array"}, {})
    assert samples.typed(text, {}, {}) == samples.typed(text, {"type": ["number", "string"]}, {}) == text


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("n=many", "argument n: 'many' is not of type integer"),
        ("n=true", "is not of type integer"),
        ("n=1.5", "is not of type integer"),
        ("m=1", "there is no argument 'm'; t takes n; nothing was called"),
        ("n", "'n' is not key=value"),
    ],
)
def test_a_wrong_argument_is_told(word: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        samples.parsed([word], "t", tool(n={"type": "integer"}).input_schema)


def test_a_missing_argument_is_told() -> None:
    with pytest.raises(ConfigError, match=r"missing: n=\.\.\.; t takes n; nothing was called"):
        samples.parsed([], "t", tool(n={"type": "integer"}).input_schema)
