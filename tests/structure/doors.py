"""Finds doors: places of a source file that listen, or take a connection that somebody else made.

A door is found by what a name stands for, however it was imported, and whether it is called, inherited, aliased or
given to something else. A method is found by its name, because nothing tells of what it is a method. A program that
listens is found where it is started or looked for.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.structure.references import File, Place, is_ours

METHODS = re.compile(
    r"accept|_?add_reader|bind|connect_accepted_socket|create_server|create_tcp_listener|create_unix_(?:listener|server)"
    r"|from(?:fd|share)|listen|open_tcp_listeners|open_unix_socket_listener|recv_handle|run_app|serve_(?:forever|tcp)"
    r"|run_(?:http|sse|streamable_http)_async|server_(?:activate|bind)|sock_accept|start_(?:unix_)?server|start_serving"
)
"""What is called so listens, or takes a connection, whatever it belongs to."""
NAMES = re.compile(
    r"uvicorn\.(?:.*\.)?(?:run|main|Server|Config)|(?:hypercorn|granian|gunicorn|waitress|daphne)\..*"
    r"|aiohttp\..*(?:Site|TestServer)|websockets\..*\bserve|grpc\.(?:aio\.)?server|wsgiref\.simple_server\..*"
    r"|multiprocessing\.connection\.Listener|multiprocessing\.managers\..*Manager|socketserver\..*Server"
    r"|(?:.*\.)?[A-Za-z]*(?:tcp|udp|http|https|unix|rpc|wsgi|asgi|websocket|stream|datagram)[A-Za-z]*server",
    re.IGNORECASE,
)
"""Functions and classes of libraries that listen."""
PROGRAMS = re.compile(
    r"caddy|daphne|envoy|gunicorn|granian|haproxy|hypercorn|locust|nginx|postgres|redis-sentinel|(?:redis|valkey)-server"
    r"|restate-server|temporal|traefik|uvicorn"
)
"""Programs that listen, where they are started or looked for."""
LIBRARIES = re.compile(
    r"(?:uvicorn|hypercorn|granian|gunicorn|waitress|daphne|socketserver|websockets)(?:\..*)?|.*\.server"
)
"""Modules whose purpose is to listen, where they are imported by a text."""
_LOOKS = ("get", "pop", "index", "count")
_TRANSPORTS = ("http", "sse")
CONFIGURED = re.compile(r"^\s*(?:bind|EXPOSE)\s|containerPort|^\s*ports: \[", re.MULTILINE)
"""What opens a port in the configuration of a program, an image, a pod or compose."""


def doors(file: File) -> set[str]:
    """The functions and classes of a file that have a door, by their qualified names; empty text for the module."""
    return {place.around for place in file.places if any(_found(file, place))}


def _found(file: File, place: Place) -> Iterator[bool]:
    node = place.node
    if isinstance(node, ast.Name | ast.Attribute):
        is_own = isinstance(node, ast.Attribute) and (place.around, getattr(node.value, "id", "")) in file.own
        yield not is_own and _listens(file.name(node))
    elif isinstance(node, ast.Call):
        yield _by_descriptor(file, node) or _by_transport(node) or _by_text(file, node)
        name = file.name(node.func).rpartition(".")[2]
        yield name not in _LOOKS and _is_program(node.args)
    elif isinstance(node, ast.List | ast.Tuple):
        yield not _is_list_of_names(node.elts) and _is_program(node.elts)


def _listens(name: str) -> bool:
    """Whether what a name stands for listens. What is ours is looked at where it is defined."""
    if not name or is_ours(name):
        return False
    return bool(METHODS.fullmatch(name.rpartition(".")[2]) or NAMES.fullmatch(name))


def _by_descriptor(file: File, call: ast.Call) -> bool:
    """Whether it makes a socket of a descriptor."""
    is_socket = file.name(call.func) in ("socket.socket", "socket.SocketType", "_socket.socket")
    given = {keyword.arg for keyword in call.keywords}
    return is_socket and (len(call.args) > 3 or "fileno" in given or None in given)


def _by_transport(call: ast.Call) -> bool:
    """Whether it runs an MCP server on a transport that listens: `server.run(transport="sse")`."""
    texts = [word.value for word in call.keywords if word.arg == "transport" and isinstance(word.value, ast.Constant)]
    is_run = isinstance(call.func, ast.Attribute) and call.func.attr.startswith("run")
    return is_run and any(str(text.value).endswith(_TRANSPORTS) for text in texts)


def _by_text(file: File, call: ast.Call) -> bool:
    """Whether it looks up what listens by a text: `getattr(loop, "create_server")`, `import_module("uvicorn")`."""
    texts = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    if isinstance(call.func, ast.Name) and call.func.id == "getattr":
        return any(_listens(f"{file.name(call.args[0])}.{text}") for text in texts)
    is_import = file.name(call.func) == "importlib.import_module" or getattr(call.func, "id", "") == "__import__"
    return is_import and any(LIBRARIES.fullmatch(text) for text in texts)


def _is_list_of_names(words: list[ast.expr]) -> bool:
    """Whether it is no command line: several words, and no option or path among them."""
    texts = [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]
    return len(texts) == len(words) > 1 and all(text.replace("-", "_").isidentifier() for text in texts)


def _is_program(words: list[ast.expr]) -> bool:
    """Whether a command line starts a program that listens, or one is looked for."""
    texts = [word.value if isinstance(word, ast.Constant) and isinstance(word.value, str) else "" for word in words]
    named = {"".join(texts[:1]), *(texts[at + 1] for at, text in enumerate(texts[:-1]) if text == "-m")}
    firsts = {text.split()[0] for text in named if text.split()}
    return any(PROGRAMS.fullmatch(PurePosixPath(text).name) for text in firsts)
