"""`framehold nodes` and `framehold ring`: what a router says of its fleet, as a table or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx2
from rich import box
from rich.console import Console
from rich.table import Table

from framehold_core.errors import ConfigError

from . import addresses, visible
from .voice import aligned

_LOCAL = ("127.0.0.1", "localhost", "::1")
_STATES = {"live": "green", "ok": "green", "draining": "yellow", "warn": "yellow", "dead": "red", "fail": "red"}
_JSON = "json"


def nodes(url: str, output: str) -> None:
    """Print the nodes that the router at `url` knows.

    Raises:
        ConfigError: no router answers there.
    """
    found = _get(url, "nodes")["nodes"]
    if output == _JSON:
        print(json.dumps(found, indent=2))
        return
    heads = ("NODE", "STATE", "ADDRESS", "PID", "PARKED", "IN FLIGHT", "VERSION")
    keys = ("node_id", "state", "address", "pid", "parked", "in_flight", "version")
    show(heads, [[_cell(one.get(key)) for key in keys] for one in found], "There is no node.")


def ring(url: str, output: str) -> None:
    """Print how the router at `url` shares new calls out among its nodes.

    Raises:
        ConfigError: no router answers there.
    """
    found = _get(url, "ring")
    if output == _JSON:
        print(json.dumps(found, indent=2))
        return
    rows = [
        [
            *(_cell(one.get(key)) for key in ("node_id", "state")),
            *(_percent(one.get(key)) for key in ("share", "ideal_share")),
            _cell(one.get("points")),
        ]
        for one in found["nodes"]
    ]
    show(("NODE", "STATE", "SHARE", "IDEAL", "POINTS"), rows, "The ring is empty.")


def show(heads: Sequence[str], rows: Sequence[Sequence[str]], nothing: str) -> None:
    """A table in a terminal, aligned columns anywhere else."""
    if not rows:
        print(nothing)
        return
    rows = [[visible.line(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        print(aligned([heads, *rows], indent=""))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold", style="bold" if head == heads[0] else "")
    for row in rows:
        table.add_row(*(f"[{_STATES[cell]}]{cell}[/]" if cell in _STATES else _plain(cell) for cell in row))
    Console().print(table)


def _plain(cell: str) -> str:
    """A text in which Rich sees no markup."""
    return cell.replace("[", r"\[")


def _get(url: str, what: str) -> Mapping[str, Any]:
    where = f"{addresses.base(url)}/api/v1/{what}"
    try:
        local = urlsplit(where).hostname in _LOCAL
    except ValueError:
        raise ConfigError(f"{url} is no address; name one as --url http://127.0.0.1:8080") from None
    try:
        response = httpx2.get(where, timeout=10, trust_env=not local)
        if response.status_code != httpx2.codes.OK:
            raise ConfigError(f"{where} answers {response.status_code}: no router of this release; name another --url")
        found = response.json()
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        why = str(error) or type(error).__name__
        raise ConfigError(
            f"no router answers at {url} ({why}); start a fleet with framehold up, or name another --url"
        ) from None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("nodes"), list):
        raise ConfigError(f"{where} is no router's: its answer has no nodes; name another --url")
    return found


def _cell(value: Any) -> str:
    return "-" if value in (None, "") else str(value)


def _percent(value: Any) -> str:
    return f"{value:.1%}" if isinstance(value, int | float) else _cell(value)
