"""The Typer commands. The modules that a command needs are imported when it runs, because most are slow to import."""

from __future__ import annotations

import json
from importlib.metadata import version as installed
from typing import Annotated

import typer

from framehold_core.errors import ConfigError

from .call import calling
from .operate import operating
from .options import between
from .serve import program
from .show.output import PlainOutput

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
keys = typer.Typer(no_args_is_help=True, help="Keys that seal tokens and stored values.")

_NO_KEYS = (
    "FRAMEHOLD_KEYS is missing: {why}; nothing was started; make one with: export FRAMEHOLD_KEYS=$(framehold keys new)"
)


Target = Annotated[
    str, typer.Argument(help="The server: module:name, file.py or file.py:name; or a function that makes it.")
]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
LogLevel = Annotated[str | None, typer.Option(help="debug, info, warning or error (FRAMEHOLD_LOG_LEVEL).")]
Port = Annotated[int, typer.Option(callback=between(0, 65535), help="Port to listen on; 0 takes a free one.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"framehold {installed('framehold')}")
        raise typer.Exit


@app.callback()
def framehold(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the release and leave.")
    ] = False,
) -> None:
    """Make `await ctx.elicit(...)` a genuine suspension, on MCP revision 2026-07-28."""


@app.command()
def up(
    target: Annotated[
        str | None,
        typer.Argument(
            help="The server: module:name, file.py or file.py:name; or a function that makes it. Without: an example."
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(callback=between(1, 50), help="How many nodes, 1 to 50.", show_default="3; with --reload 1"),
    ] = None,
    port: Annotated[
        int, typer.Option(callback=between(0, 65535), help="The router's port; 0 takes a free one.")
    ] = 8080,
    store: Annotated[
        str | None, typer.Option(help="Redis URL (FRAMEHOLD_STORE_URL); without one, a private store.")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the dashboard when all is ready.")] = False,
    reload: Annotated[
        bool, typer.Option("--reload", help="Restart the node when a file beside TARGET changes.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no line for each round of a call.")] = False,
    log_level: LogLevel = None,
) -> None:
    """Start a whole fleet on this machine: a router, nodes that serve TARGET, and a store. Ctrl-C ends it.

    Each round of a call is one line: what the handler asked, or how it ended, how long it took, its node and its
    call."""
    from .local.up import EXAMPLE, UpArguments, run

    count = nodes or (1 if reload else 3)
    raise typer.Exit(run(UpArguments(target or EXAMPLE, count, port, store, log_level, open_browser, reload, quiet)))


calling.add(app)


@app.command()
def doctor(
    output: operating.PrintedPlain = PlainOutput.TABLE,
    port: operating.Port = None,
    url: operating.Url = None,
    token: operating.GivenToken = None,
) -> None:
    """Check this machine, the settings, the store and the fleet, and say what to do."""
    from .diagnose.doctor import run

    raise typer.Exit(run(output is PlainOutput.JSON, url, port, token))


operating.add(app)


@app.command()
def node(
    target: Target,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    store: Annotated[str | None, typer.Option(help="Redis URL (FRAMEHOLD_STORE_URL); without one, memory.")] = None,
    node_id: Annotated[str | None, typer.Option(help="This node's stable name (FRAMEHOLD_NODE_ID).")] = None,
    server: Annotated[str | None, typer.Option(help="framehold or uvicorn (FRAMEHOLD_SERVER).")] = None,
    log_level: LogLevel = None,
    standby: Annotated[int | None, typer.Option(hidden=True)] = None,
    show_rounds: Annotated[bool, typer.Option("--show-rounds", hidden=True)] = False,
) -> None:
    """Serve TARGET on one node, at http://HOST:PORT/mcp. Needs FRAMEHOLD_KEYS."""
    from framehold import config

    from .serve import node as node_command
    from .serve import target as targets

    settings = config.load(store_url=store, node_id=node_id, server=server, log_level=log_level)
    if not settings.keys:
        raise ConfigError(_NO_KEYS.format(why="without keys that outlive this process its tokens die with it"))
    if standby is None:
        served = targets.found(target)
    else:
        from .local.in_turn import server_in_turn

        served = server_in_turn(target, settings, standby)
    node_command.run(served, settings, host, port, show_rounds)


@app.command()
def router(
    host: Host = "127.0.0.1",
    port: Port = 8080,
    store: Annotated[str | None, typer.Option(help="Redis URL of the fleet (FRAMEHOLD_STORE_URL).")] = None,
    log_level: LogLevel = None,
) -> None:
    """Steer each call to the node that holds it, at http://HOST:PORT/mcp. Needs FRAMEHOLD_ROUTER_KEYS, or
    FRAMEHOLD_KEYS, and a store."""
    from framehold_fleet.config import load as load_settings
    from framehold_router.config import RouterSettings

    from .serve.router import run

    run(load_settings(RouterSettings, store_url=store, log_level=log_level), host, port)


@app.command(epilog=f"In the configuration of a client: {json.dumps(program.stdio('/path/to/server.py'))}")
def stdio(
    target: Target,
    store: Annotated[str | None, typer.Option(help="Redis URL (FRAMEHOLD_STORE_URL); without one, memory.")] = None,
    log_level: LogLevel = None,
) -> None:
    """Serve TARGET to one client, over standard input and output. The client starts it, and ends it by leaving.

    Whatever is printed or logged goes to standard error."""
    from .serve import stdio as stdio_command

    raise typer.Exit(stdio_command.run(target, stdio_command.settings(store, log_level)))


app.add_typer(keys, name="keys")


@keys.command("new")
def keys_new() -> None:
    """Print a fresh key: 32 random bytes as hex. To rotate, put it second in FRAMEHOLD_KEYS, then first, then alone:
    docs/runbook.md#rotating-keys."""
    import secrets

    print(secrets.token_hex(32))


@keys.command("router")
def keys_router() -> None:
    """Print what routers need of FRAMEHOLD_KEYS, for their FRAMEHOLD_ROUTER_KEYS. It opens no token and no stored
    value."""
    from framehold_fleet.identity.router_keys import text_of

    print(text_of(_all_keys("those of routers are derived from them")))


@keys.command("plane")
def keys_plane() -> None:
    """Print the key by which HAProxy proves its requests, for its FRAMEHOLD_SECRET: derived from the first of
    FRAMEHOLD_KEYS. It is never sent."""
    from framehold_fleet.identity.trust import Trust

    print(Trust(_all_keys("that of load balancers is derived from them")).plane_key)


def _all_keys(why: str) -> tuple[bytes, ...]:
    """FRAMEHOLD_KEYS as bytes; at least one."""
    from framehold import config

    settings = config.load()
    if not settings.keys:
        raise ConfigError(_NO_KEYS.format(why=why))
    return settings.secrets()


@app.command(hidden=True)
def check(target: Target) -> None:
    """Import TARGET, and say whether it can be served. For `up`."""
    from framehold import config

    from .local.check import here

    here(target, config.load())


@app.command("embedded-store", hidden=True)
def embedded_store(path: str) -> None:
    """Serve the stand-in for Redis on a Unix socket until a signal. For `up`."""
    from .local.local_store import serve_embedded

    serve_embedded(path)
