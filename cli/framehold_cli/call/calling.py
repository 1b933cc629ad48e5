"""The Typer commands that speak MCP to a server: `call` and `list`.

The modules that a command needs are imported when it runs, because most of them are slow to import.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import typer

from framehold_core.errors import ConfigError

from ..operate.operating import Port, PrintedPlain
from ..show.output import PlainOutput

ServerUrl = Annotated[str | None, typer.Option("--url", help="The server's address, with or without /mcp.")]
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="TOOL KEY=VALUE", help="The tool's name, then arguments; with --prompt arguments alone."),
]
Answers = Annotated[
    list[str] | None,
    typer.Option(
        "--answer",
        help="With --json, the answer to the next question: a JSON object, accept, decline or cancel; repeatable; "
        "further ones are read from standard input, one on each line.",
    ),
]
Token = Annotated[str | None, typer.Option(help="Bearer token, where the server wants one.")]
Header = Annotated[list[str] | None, typer.Option(help="Header to send along, as NAME=VALUE; repeatable.")]
AdminToken = Annotated[
    str | None,
    typer.Option(
        envvar="FRAMEHOLD_ADMIN_TOKEN",
        help="For what the router tells of the server; that of a framehold up on this machine is found without. That "
        "of the variable is for --api, or for this machine, and never for --url.",
    ),
]
RouterUrl = Annotated[
    str | None, typer.Option("--api", help="The address of the server's router, where its API has another one.")
]


def call(
    context: typer.Context,
    words: Words = None,
    prompt: Annotated[str | None, typer.Option(help="Get this prompt instead of a tool's result.")] = None,
    resource: Annotated[str | None, typer.Option(help="Read the resource with this URI instead.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="For programs: print one JSON document (docs/cli.md).")
    ] = False,
    answer: Answers = None,
    port: Port = None,
    url: ServerUrl = None,
    token: Token = None,
    header: Header = None,
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Then show that one node carried it, and that nothing ran twice, or exit with 1."),
    ] = False,
    router: RouterUrl = None,
    admin_token: AdminToken = None,
) -> None:
    """Call TOOL, a prompt or a resource, and answer its questions at this terminal. Enter takes a default; Ctrl-D
    cancels.

    Without a terminal each line of standard input is the answer to one field; a question that finds none ends the call.
    Exits with 0 if the call gives a result, with 1 if it fails or a question finds no answer, with 2 if nothing was
    called, with 130 after Ctrl-C."""
    from ..client import addresses
    from ..client.api import ApiClient
    from ..client.credentials import Credentials
    from .call import Options, run
    from .connection import Endpoint
    from .script import AnswerScript
    from .target import CallTarget

    if problem := _problem(as_json, answer, prove):
        raise ConfigError(f"{problem}; nothing was called")
    target, pairs = CallTarget.of(words or [], prompt, resource)
    script = AnswerScript(target, answer or []) if as_json else None
    where = addresses.server(url, port, not as_json)
    server = Endpoint(where, Credentials.of(header or [], token), router or addresses.api(url, where))
    admin_token = _for_api(context, admin_token, url, router)
    with ApiClient(server.router, admin_token, addresses.OTHER_API) if prove else nullcontext() as api:
        raise typer.Exit(run(target, pairs, server, Options(api, admin_token), script))


def _for_api(context: typer.Context, admin_token: str | None, url: str | None, router: str | None) -> str | None:
    """The admin token for the API: the option's, else that of the settings, which may be in a file. `url` names a
    server to call, which may be somebody else's: it is asked nothing with what the settings have for routers of the
    user's own."""
    from ..client import own_settings

    # By its name: Typer has an enum of its own in place of click's.
    source = context.get_parameter_source("admin_token")
    if source is not None and source.name == "COMMANDLINE":
        return admin_token
    return None if url is not None and router is None else own_settings.token()


def _problem(as_json: bool, answers: list[str] | None, prove: bool) -> str:
    """Why these options don't go together; empty if they do."""
    if answers and not as_json:
        return "--answer is for --json; without --json type the answers, or pipe them in"
    return "--prove prints a sentence and --json a document; give one of them" if prove and as_json else ""


def list_all(
    context: typer.Context,
    output: PrintedPlain = PlainOutput.TABLE,
    port: Port = None,
    url: ServerUrl = None,
    token: Token = None,
    header: Header = None,
    router: RouterUrl = None,
    admin_token: AdminToken = None,
) -> None:
    """List the tools, prompts, resources and resource templates of a server, with their arguments and marks.

    The marks need a router that tells them: `re-entrant` is the author's promise that the handler may be entered again,
    `asks` that it may ask its user."""
    from ..client import addresses
    from ..client.credentials import Credentials
    from ..show.sheet import present
    from .connection import Endpoint
    from .listing import sheet

    where = addresses.server(url, port)
    server = Endpoint(where, Credentials.of(header or [], token), router or addresses.api(url, where))
    admin_token = _for_api(context, admin_token, url, router)
    raise typer.Exit(present(lambda: sheet(server, admin_token), output))


def add(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(call)
    app.command("list")(list_all)
