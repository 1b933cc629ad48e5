"""Imports the server that TARGET names, as `module:name`, `file.py` or `file.py:name`. The name may be that of a
function that makes the server."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from difflib import get_close_matches
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from starlette.applications import Starlette

from framehold.code.authors import is_framehold, is_library
from framehold.code.lines import file_and_line
from framehold.config import Settings
from framehold.hosts.attach import attach
from framehold.hosts.host_choice import is_server
from framehold.http.app import Application, asgi
from framehold_core.errors import ConfigError, FrameholdError

from . import target_file

_UNEXPECTED = re.compile(r"MCPServer\.__init__\(\) got an unexpected keyword argument '(\w+)'")
_SDK1_ARGUMENTS = {
    *("host", "port", "mount_path", "sse_path", "message_path", "streamable_http_path", "json_response"),
    *("stateless_http", "event_store", "retry_interval", "transport_security"),
}
_SDK1_ARGUMENTS_HINT = (
    "; that is of mcp 1; leave out each argument about HTTP: the endpoint is /mcp, framehold up and node take --port, "
    "and docs/migrating.md says what takes the place of the others"
)
_USUAL_NAMES = ("mcp", "server", "app")
_SDK1_HINT = (
    "; that is of mcp 1; now: from mcp.server import MCPServer; from mcp.server.mcpserver import Context (see "
    "docs/migrating.md)"
)


def load(target: str) -> Any:
    """Import the server that TARGET names. If TARGET names an app of `framehold.asgi`, return the server of the app,
    which remembers the app's settings.

    Raises:
        ConfigError: as `found`.
    """
    value = found(target)
    return value.server if isinstance(value, Application) else value


def app_of(value: Any, settings: Settings) -> Application:
    """The app that serves `value`, which `found` returned: an app itself, with what its author has added to it, or one
    that is made of the server.

    Raises:
        ConfigError: the server can't be served, or was attached with other settings.
    """
    try:
        if isinstance(value, Application):
            attach(value.server, settings)
            return value
        return asgi(value, settings)
    except TypeError as error:
        raise ConfigError(str(error)) from None


def found(target: str) -> Any:
    """Import what TARGET names: a server, or an app of `framehold.asgi`. A function is called, and returns either.

    Without a name it is the module's only server, or the one called mcp, server or app.

    Raises:
        ConfigError: there is no such file, module or name, its import or the function fails, or it is no MCP server.
    """
    place, _, name = target.partition(":")
    file = target_file.named(target)
    module = _from_name(place) if file is None else _from_file(file)
    return _named(module, name, target) if name else _only(module, place)


def _from_file(path: Path) -> ModuleType:
    # The file can import its neighbours, as with `python file.py`.
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    loader = spec.loader
    _run(lambda: loader.exec_module(module), str(path))
    return module


def _from_name(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    found: list[ModuleType] = []
    _run(lambda: found.append(importlib.import_module(name)), name)
    return found[0]


def _run(importing: Any, target: str) -> None:
    try:
        importing()
    except ModuleNotFoundError as error:
        where = f"there is no module {error.name!r}{_user_line(error)}{_sdk1_hint(error)}{_extra_hint(error)}"
        raise ConfigError(f"TARGET {target}: {where}; nothing was started") from error
    except FrameholdError:
        raise
    except (Exception, SystemExit) as error:
        where = f"{type(error).__name__}: {_text(error)}{_misspelt(error)}{_user_line(error)}{_sdk1_hint(error)}"
        raise ConfigError(f"TARGET {target} can't be imported: {where}; nothing was started") from error


def _text(error: BaseException) -> str:
    """The message of an error. That of a SyntaxError is without the place, which `_user_line` writes."""
    return error.msg if isinstance(error, SyntaxError) else str(error)


def _misspelt(error: BaseException) -> str:
    """The name that is most like one that an object does not have, as a question; else empty."""
    if not isinstance(error, AttributeError) or error.obj is None or error.name is None:
        return ""
    return "".join(f"; did you mean {near!r}?" for near in get_close_matches(error.name, dir(error.obj), 1))


def _sdk1_hint(error: BaseException) -> str:
    """A hint for the error of an import, or of an argument, that only the first major release of the SDK has; else
    empty."""
    if isinstance(error, TypeError) and (found := _UNEXPECTED.search(str(error))) is not None:
        return _SDK1_ARGUMENTS_HINT if found[1] in _SDK1_ARGUMENTS else ""
    if not isinstance(error, ImportError):
        return ""
    gone = str(error.name).startswith("mcp.server.fastmcp") or "'FastMCP' from 'mcp.server'" in str(error)
    return _SDK1_HINT if gone else ""


def _extra_hint(error: ModuleNotFoundError) -> str:
    """How to install an optional dependency of Framehold's that is missing; empty for any other module."""
    return "; install it: pip install 'framehold[fastmcp]'" if error.name == "fastmcp" else ""


def _user_line(error: BaseException) -> str:
    """The innermost line of the user's own code in the traceback, as ` (file:line)`; else empty. Lines of Framehold, of
    other installed packages and of the interpreter don't count."""
    if isinstance(error, SyntaxError):
        # The line that is wrong did not run.
        return f" ({file_and_line(error.filename, error.lineno)})" if error.filename else ""
    own = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file, module = frame.f_code.co_filename, str(frame.f_globals.get("__name__", ""))
        if not is_library(file) and not is_framehold(module):
            own = f" ({file_and_line(file, line)})"
    return own


def _named(module: ModuleType, name: str, target: str) -> Any:
    if not hasattr(module, name):
        known = ", ".join(sorted(_servers(module))) or "none"
        raise ConfigError(f"TARGET {target}: no {name!r} there (servers found: {known}); nothing was started")
    value = getattr(module, name)
    if isinstance(value, FunctionType):
        value = _made(value, target)
    if isinstance(value, Starlette):
        raise _host_app_error(value, module, name, target)
    return value


def _made(factory: FunctionType, target: str) -> Any:
    """What a function returns that makes the server."""
    made: list[Any] = []
    _run(lambda: made.append(factory()), target)
    if not _is_server(made[0]) and not isinstance(made[0], Starlette):
        raise ConfigError(
            f"TARGET {target}: {factory.__name__}() returned {type(made[0]).__name__}, which is no server; nothing was "
            "started; name a server, or a function without arguments that returns one"
        )
    return made[0]


def _only(module: ModuleType, target: str) -> Any:
    servers = _servers(module)
    usual = [servers[name] for name in _USUAL_NAMES if name in servers]
    if usual or len(servers) == 1:
        return usual[0] if usual else next(iter(servers.values()))
    hosts = {name: value for name, value in vars(module).items() if isinstance(value, Starlette)}
    if hosts and not servers:
        name, value = next(iter(hosts.items()))
        raise _host_app_error(value, module, name, target)
    known = ", ".join(sorted(servers)) or "none"
    factory = "" if servers else f"; if a function makes it, name the function, as {target}:create_server"
    raise ConfigError(
        f"TARGET {target}: name the server, as {target}:name (found: {known}){factory}; nothing was started"
    )


def _servers(module: ModuleType) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if _is_server(value)}


def _is_server(value: Any) -> bool:
    return isinstance(value, Application) or is_server(value)


def _host_app_error(value: Starlette, module: ModuleType, name: str, target: str) -> ConfigError:
    kind = type(value).__name__
    return ConfigError(
        f"TARGET {target}: {name} is a {kind} app, which may host a server and is none; nothing was started; run it as "
        f"uvicorn {module.__name__}:{name} with the FRAMEHOLD_ settings in the environment (docs/hosting.md)"
    )
