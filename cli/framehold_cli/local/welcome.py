"""The text that `framehold up` prints when the fleet is ready: all addresses, and a call to paste."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import Tool
from rich.text import Text

from ..call import paste
from ..checks import readiness
from ..client import local_fleets
from ..serve.fate import Fate
from ..show import visible
from ..show.voice import aligned, drawn

_log = logging.getLogger("framehold")


@dataclass(frozen=True)
class Welcome:
    """A fleet that has just started.

    `nodes` and `pids` are ports and process ids by node name. `store` is a sentence about the store. `fate` is what
    happens to the calls of a node that dies. `token` is the admin token if `up` made it for this run, else empty.
    `playground`: whether the dashboard has a page that calls tools. `example` is the source of what is served, if that
    is an example to copy, else empty."""

    url: str
    served: str
    nodes: Mapping[str, int]
    pids: Mapping[str, int]
    store: str
    fate: Fate
    token: str = ""
    playground: bool = True
    example: str = ""

    async def text(self, colour: bool) -> str:
        """The whole text, with one empty line at each end."""
        try:
            tools = await listed(f"{self.url}/mcp")
        except Exception as error:
            # Some servers list their tools only to users that they know. They are served too.
            _log.debug("tools/list failed: %r", error)
            tools = []
        rows = self._rows(with_dashboard=await readiness.status(f"{self.url}/dashboard") == 200)
        count = f"{len(self.nodes)} nodes serve" if len(self.nodes) > 1 else "1 node serves"
        table = aligned(rows)
        if colour:
            shown = Text(table)
            shown.highlight_regex(r"(?m)^ +[\w-]+", "bold cyan")
            shown.highlight_regex(r"(?m)pid \d+$", "dim")
            table = drawn(shown)
        parts = [
            f"framehold is up: {count} {self.served}",
            table,
            visible.block(self._calls(tools)),
            *self._hint(tools),
            self._access(),
            "Ctrl-C stops everything.",
        ]
        return "\n" + "\n\n".join(parts) + "\n"

    def _rows(self, with_dashboard: bool) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("router", f"{self.url}/mcp")]
        if with_dashboard:
            # The token is in the URL's fragment, which no request carries. The page reads it there and signs in.
            end = f"#token={self.token}" if self.token else ""
            rows.append(("dashboard", f"{self.url}/dashboard{end}"))
            if self.playground:
                rows.append(("playground", f"{self.url}/dashboard/playground{end}"))
        rows += [(name, f"http://127.0.0.1:{port}/mcp", f"pid {self.pids[name]}") for name, port in self.nodes.items()]
        rows.append(("store", self.store))
        if self.example:
            rows.append(("source", f"{self.example} (copy it for a server of your own)"))
        return [*rows, ("admin token", self.token)] if self.token else rows

    def _access(self) -> str:
        """What needs the admin token: everything but `/mcp` and the probes."""
        if not self.token:
            return "The dashboard, the API and your commands (framehold status) want your FRAMEHOLD_ADMIN_TOKEN."
        found = local_fleets.admin_token(self.url) == self.token
        yours = "your commands on this machine find it" if found else "give it to commands with --token"
        return (
            f"The dashboard and the API want the admin token: {yours}.\n"
            "The dashboard's link brings it along; curl sends -H 'Authorization: Bearer TOKEN'."
        )

    def _calls(self, tools: Sequence[Tool]) -> str:
        if not tools:
            return "It shows no tools. Ask it yourself:\n" + paste.indented([paste.curl_tools(f"{self.url}/mcp")])
        first, where = tools[0], f"{self.url}/mcp"
        return (
            f"Call {first.name}, and answer what it asks:\n{paste.indented([paste.call(first, where)])}\n\n"
            f"The same as it goes over the wire, round 1:\n{paste.indented([paste.curl(first, where)])}\n\n"
            f"See the nodes:\n{paste.indented([paste.nodes(self.url)])}"
        )

    def _hint(self, tools: Sequence[Tool]) -> list[str]:
        if not tools:
            return []
        name, pid = next(iter(self.pids.items()))
        return [
            "Before each question stands the node that asked it. Now kill that node (its pid is above; "
            f"{name}: kill -9 {pid}) and answer.\n"
            f"{self.fate.hint(len(self.nodes))}"
        ]


async def listed(url: str) -> list[Tool]:
    """The first page of the tools at `url`, read by the official client."""
    # The server is on this machine, so a proxy in the environment is not used.
    async with (
        httpx2.AsyncClient(trust_env=False, timeout=10) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        return (await client.list_tools()).tools
