"""The Typer commands for operators. They talk only to the router of a running fleet; `journal`, which is for authors,
reads the store too.

The modules that a command needs are imported when it runs, because most of them are slow to import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from framehold_core.ending import How
from framehold_fleet.models.choices import CallSort, Sort, State

from ..options import between
from ..show.output import Output, PlainOutput

if TYPE_CHECKING:
    from ..client.api import ApiClient
    from ..show.sheet import Sheet

UNKNOWN = 3
"""The exit code of `status` if nothing is known of the fleet: `main` ends with it where the command raises an error."""
_PANEL = "Operate a running fleet"
_UNDONE = "nothing was done"

Url = Annotated[str | None, typer.Option("--url", help="The router's address, with or without /mcp.")]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        callback=between(1, 65535, _UNDONE),
        help="Its port on this machine; without: that of the framehold up which runs here, or 8080.",
    ),
]


def _token(value: str | None) -> str | None:
    """The admin token: it may be in a file (FRAMEHOLD_SECRETS_DIR)."""
    from ..client import own_settings

    return value or own_settings.token()


_TOKEN: dict[str, Any] = {
    "envvar": "FRAMEHOLD_ADMIN_TOKEN",
    "help": "The admin token; that of a framehold up on this machine is found without.",
}
Token = Annotated[str | None, typer.Option("--token", callback=_token, **_TOKEN)]
GivenToken = Annotated[str | None, typer.Option("--token", **_TOKEN)]
"""Without the settings, which may be unreadable."""
_PRINTED: Any = typer.Option("--output", "-o", help="How to print it.")
Printed = Annotated[Output, _PRINTED]
PrintedPlain = Annotated[PlainOutput, _PRINTED]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it every 2 seconds until Ctrl-C.")]
Call = Annotated[str, typer.Argument(help="Its id, or its beginning: at the end of a round's line of framehold up.")]
Tool = Annotated[str, typer.Argument(help="The name of a tool or a prompt; resources/read stands for all resources.")]
Limit = Annotated[int, typer.Option(callback=between(1, 1000, _UNDONE), help="How many, 1 to 1000.")]
Sure = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]


Where = tuple[int | None, str | None]
"""The options `--port` and `--url` of a command."""


def _api(where: Where, token: str | None) -> ApiClient:
    from ..client import addresses
    from ..client.api import ApiClient

    port, url = where
    return ApiClient(addresses.router(url, port), token)


def _show(
    draw: Callable[[ApiClient], Sheet], where: Where, token: str | None, output: Output | PlainOutput, watch: bool
) -> None:
    from ..show.sheet import present

    with _api(where, token) as api:
        raise typer.Exit(present(lambda: draw(api), output, watch))


def status(
    output: PrintedPlain = PlainOutput.TABLE,
    watch: Watch = False,
    port: Port = None,
    url: Url = None,
    token: Token = None,
) -> None:
    """Tell whether anything is wrong, where, why, and what will happen to it.

    Exits with 1 where users are harmed now, with 2 where something will harm them, with 3 where nothing is known: no
    router answers, it wants the admin token, or the command is wrong. Else with 0."""
    from .status import status

    _show(status, (port, url), token, output, watch)


def nodes(
    output: Printed = Output.TABLE, watch: Watch = False, port: Port = None, url: Url = None, token: Token = None
) -> None:
    """List the nodes that a router knows."""
    from .views import nodes

    _show(nodes, (port, url), token, output, watch)


def ring(
    output: Printed = Output.TABLE, watch: Watch = False, port: Port = None, url: Url = None, token: Token = None
) -> None:
    """Show each node's share of new calls."""
    from .views import ring

    _show(ring, (port, url), token, output, watch)


def capacity(
    output: Printed = Output.TABLE, watch: Watch = False, port: Port = None, url: Url = None, token: Token = None
) -> None:
    """Show how much of each limit is used, which fills first, and whether the fleet can lose a node.

    Exits with 1 where no node is live, or the other nodes lack room for what the fullest one uses."""
    from .views import capacity

    _show(capacity, (port, url), token, output, watch)


def leases(
    state: Annotated[State | None, typer.Option(help="Only calls in it; else all but those that ended.")] = None,
    expiring: Annotated[float | None, typer.Option(help="Only those that expire within so many seconds.")] = None,
    replayed: Annotated[bool | None, typer.Option(help="Only those whose frames were rebuilt, or were not.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.")] = None,
    node: Annotated[str | None, typer.Option(help="Only calls on this node.")] = None,
    call: Annotated[str | None, typer.Option(help="Only calls whose ids begin so.")] = None,
    sort: Annotated[Sort, typer.Option(help="The least first.")] = Sort.CALL,
    descending: Annotated[bool, typer.Option("--desc", help="The greatest first.")] = False,
    limit: Limit = 100,
    every: Annotated[bool, typer.Option("--all", help="All pages.")] = False,
    output: Printed = Output.TABLE,
    watch: Watch = False,
    port: Port = None,
    url: Url = None,
    token: Token = None,
) -> None:
    """List the calls that nodes hold, and those that wait for a node. Of several filters each must hold."""
    from .leases import leases

    query: dict[str, Any] = {
        "state": state,
        "expiring": expiring,
        "replayed": replayed,
        "tool": tool,
        "node": node,
        "call": call,
        "sort": sort,
        "descending": descending or None,
        "limit": limit,
    }
    _show(lambda api: leases(api, query, every), (port, url), token, output, watch)


def calls(
    failed: Annotated[bool, typer.Option("--failed", help="Only those that failed.")] = False,
    outcome: Annotated[How | None, typer.Option(help="Only those that ended so.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.")] = None,
    node: Annotated[str | None, typer.Option(help="Only calls that ended on this node.")] = None,
    sort: Annotated[CallSort, typer.Option(help="The greatest first.")] = CallSort.ENDED,
    limit: Limit = 100,
    output: Printed = Output.TABLE,
    watch: Watch = False,
    port: Port = None,
    url: Url = None,
    token: Token = None,
) -> None:
    """List the calls that ended in the last hour, and how each ended: the error's class, and the line that raised it.

    The store keeps the last 5,000 that failed and 5,000 others, for an hour.
    Of several filters each must hold."""
    from .calls import calls

    query: dict[str, Any] = {
        "failed": failed or None,
        "outcome": outcome,
        "tool": tool,
        "node": node,
        "sort": sort,
        "limit": limit,
    }
    _show(lambda api: calls(api, query), (port, url), token, output, watch)


def lease(
    call: Call,
    output: PrintedPlain = PlainOutput.TABLE,
    watch: Watch = False,
    port: Port = None,
    url: Url = None,
    token: Token = None,
) -> None:
    """Show one CALL: its rounds across nodes, its journal without values, and what will become of it."""
    from .lease import lease

    _show(lambda api: lease(api, call), (port, url), token, output, watch)


def journal(
    call: Call,
    store: Annotated[
        str | None, typer.Option(help="The store's Redis URL (FRAMEHOLD_STORE_URL); that of framehold up is known.")
    ] = None,
    output: PrintedPlain = PlainOutput.TABLE,
    port: Port = None,
    url: Url = None,
    token: Token = None,
) -> None:
    """Show the journal of one open CALL with its questions, answers and results in plain text, on a fleet of this
    machine. The journal is dropped when the call ends: then only its end is shown, and its result while that is kept.

    It reads a store on this machine alone, with the keys of a framehold up of yours, or with FRAMEHOLD_KEYS. What users
    have answered is shown on your terminal; framehold lease shows a call without that."""
    from ..client import addresses
    from ..show.sheet import present
    from .journal import sheet

    where = addresses.router(url, port)
    raise typer.Exit(present(lambda: sheet(where, token, call, store), output))


def cancel(call: Call, yes: Sure = False, port: Port = None, url: Url = None, token: Token = None) -> None:
    """End CALL for good: its handler is cancelled, its client is told. Needs the admin token."""
    _act("cancel", call, yes, (port, url), token)


def evict(call: Call, yes: Sure = False, port: Port = None, url: Url = None, token: Token = None) -> None:
    """Drop the frame of CALL to free memory: its next round replays it. Needs the admin token."""
    _act("evict", call, yes, (port, url), token)


def _act(action: Literal["cancel", "evict"], call: str, sure: bool, where: Where, token: str | None) -> None:
    from .actions import act

    with _api(where, token) as api:
        raise typer.Exit(act(api, action, call, sure))


def drain(
    node: Annotated[str, typer.Argument(help="The node's name.")],
    timeout: Annotated[float, typer.Option(callback=between(0, 86_400, _UNDONE), help="Seconds to follow it.")] = 60.0,
    wait: Annotated[bool, typer.Option(help="Follow it until it holds nothing.")] = True,
    undo: Annotated[bool, typer.Option("--undo", help="Take its drain back: it takes calls again.")] = False,
    port: Port = None,
    url: Url = None,
    token: Token = None,
) -> None:
    """Let NODE take no new calls, and hand off those that it has. Needs the admin token.

    Its process goes on until it is stopped. Exits with 1 where the node still holds something after the timeout; it
    drains on."""
    from .draining import drain, undrain

    with _api((port, url), token) as api:
        raise typer.Exit(undrain(api, node) if undo else drain(api, node, timeout, wait))


def pause(
    tool: Tool,
    why: Annotated[str, typer.Option(help="Why, for other operators; clients are not told.")] = "",
    yes: Sure = False,
    port: Port = None,
    url: Url = None,
    token: Token = None,
) -> None:
    """Refuse new calls of TOOL on all nodes, and let those that are parked wait, until it is resumed. Needs the admin
    token.

    A round that runs ends. A parked call waits as long as its token is valid."""
    from .actions import pause

    with _api((port, url), token) as api:
        raise typer.Exit(pause(api, tool, why, yes))


def resume(tool: Tool, port: Port = None, url: Url = None, token: Token = None) -> None:
    """End the pause of TOOL: it takes calls again, and parked ones go on. Needs the admin token."""
    from .actions import resume

    with _api((port, url), token) as api:
        raise typer.Exit(resume(api, tool))


def add(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    listing = (status, nodes, capacity, leases, calls, lease, ring)
    for command in (*listing, drain, cancel, evict, pause, resume):
        app.command(rich_help_panel=_PANEL)(command)
    app.command()(journal)
