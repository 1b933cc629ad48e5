"""`framehold nodes` and `framehold ring`: the router's own words as JSON, columns for people."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from framehold.cli import views
from framehold_core.errors import ConfigError

NODES = {
    "nodes": [
        {"node_id": "n1", "incarnation": "i", "state": "live", "address": "http://127.0.0.1:1", "pid": 7, "parked": 2}
        | {"in_flight": 0, "version": "0.1.0"},
        {"node_id": "[n2]", "incarnation": "j", "state": "dead", "address": "", "pid": None, "parked": None}
        | {"in_flight": None, "version": None, "news": 1},
    ]
}
RING = {
    "nodes": [{"node_id": "n1", "state": "live", "ideal_share": 0.5, "share": 0.4912, "points": 160}],
    "points": 320,
}


class Router(BaseHTTPRequestHandler):
    """Says what it is told to say."""

    says: ClassVar[dict[str, tuple[int, bytes]]] = {}

    def do_GET(self) -> None:
        status, body = self.says.get(self.path, (404, b"no"))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def url() -> Iterator[str]:
    Router.says = {
        "/api/v1/nodes": (200, json.dumps(NODES).encode()),
        "/api/v1/ring": (200, json.dumps(RING).encode()),
    }
    with ThreadingHTTPServer(("127.0.0.1", 0), Router) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_json_is_what_the_router_says(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The list of nodes itself, the ring as it is, unknown fields included."""
    views.nodes(url, "json")
    assert json.loads(capsys.readouterr().out) == NODES["nodes"]
    views.ring(url + "/", "json")
    assert json.loads(capsys.readouterr().out) == RING


def test_columns_where_there_is_no_terminal(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Aligned, without a colour or a frame; what isn't known is a dash."""
    views.nodes(url, "table")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NODE", "STATE", "ADDRESS", "PID", "PARKED", "IN", "FLIGHT", "VERSION"]
    assert lines[1].split() == ["n1", "live", "http://127.0.0.1:1", "7", "2", "0", "0.1.0"]
    assert lines[2].split() == ["[n2]", "dead", "-", "-", "-", "-", "-"]
    assert lines[1].index("live") == lines[2].index("dead") == lines[0].index("STATE")
    views.ring(url, "table")
    assert capsys.readouterr().out.splitlines()[1].split() == ["n1", "live", "49.1%", "50.0%", "160"]


def test_a_table_in_a_terminal(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that look like markup are names."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    views.nodes(url, "table")
    out = capsys.readouterr().out
    assert "[n2]" in out and "─" in out


@pytest.mark.parametrize("form", ["{}/mcp", "{}/mcp/", "{}/dashboard", "{}/"])
@pytest.mark.parametrize("bare", [True, False])
def test_an_address_as_up_prints_it(url: str, form: str, bare: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """The router is meant, whichever of its pages was pasted, and whether or not it says http."""
    views.nodes(form.format(url.removeprefix("http://") if bare else url), "json")
    assert json.loads(capsys.readouterr().out) == NODES["nodes"]


def test_names_can_not_steer_the_terminal(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A lease may hold anything."""
    odd = {"nodes": [{"node_id": "n\x1b[2J", "state": "live\x9b"}]}
    Router.says["/api/v1/nodes"] = (200, json.dumps(odd).encode())
    views.nodes(url, "table")
    out = capsys.readouterr().out
    assert "n\\x1b[2J" in out and "live\\x9b" in out and "\x1b" not in out


def test_a_fleet_without_nodes(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    Router.says["/api/v1/nodes"] = (200, b'{"nodes": []}')
    views.nodes(url, "table")
    assert capsys.readouterr().out == "There is no node.\n"


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ((404, b"no"), "answers 404: no router of this release"),
        ((200, b"<html>"), "is no router's"),
        ((200, b"[]"), "is no router's"),
        ((200, b'{"nodes": 1}'), "is no router's"),
    ],
)
def test_something_else_there(url: str, said: tuple[int, bytes], says: str) -> None:
    Router.says["/api/v1/nodes"] = said
    with pytest.raises(ConfigError, match=says):
        views.nodes(url, "table")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense", "http://[x"])
def test_nobody_there(url: str) -> None:
    """One line that says what to do."""
    with pytest.raises(ConfigError, match=r"another --url|name one as --url"):
        views.ring(url, "json")
