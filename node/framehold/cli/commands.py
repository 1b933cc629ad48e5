"""The commands, as Typer sees them."""

from __future__ import annotations

import secrets
from typing import Annotated

import typer

from framehold_core.errors import ConfigError

from .. import config
from . import node as node_command
from . import target as targets

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
keys = typer.Typer(no_args_is_help=True, help="Keys that seal tokens and stored values.")
app.add_typer(keys, name="keys")


@app.callback()
def framehold() -> None:
    """Make `await ctx.elicit(...)` a genuine suspension, on MCP revision 2026-07-28."""


@app.command()
def node(
    target: Annotated[str, typer.Argument(help="The server: module:name, file.py or file.py:name.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    store: Annotated[str | None, typer.Option(help="Redis URL (FRAMEHOLD_STORE_URL); without one, memory.")] = None,
    node_id: Annotated[str | None, typer.Option(help="This node's stable name (FRAMEHOLD_NODE_ID).")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error (FRAMEHOLD_LOG_LEVEL).")] = None,
) -> None:
    """Serve TARGET on one node, at http://HOST:PORT/mcp. Needs FRAMEHOLD_KEYS."""
    settings = config.load(store_url=store, node_id=node_id, log_level=log_level)
    if not settings.keys:
        raise ConfigError(
            "FRAMEHOLD_KEYS is missing: without keys that outlive this process its tokens die with it; nothing was "
            "started; make one with: export FRAMEHOLD_KEYS=$(framehold keys new)"
        )
    node_command.run(targets.load(target), settings, host, port)


@keys.command("new")
def keys_new() -> None:
    """Print a fresh key: 32 random bytes as hex. Put new keys first in FRAMEHOLD_KEYS, drop old ones a token's life
    later."""
    print(secrets.token_hex(32))
