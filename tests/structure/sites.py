"""Finds the functions and classes of what ships that listen, or that send a credential, by the words that do so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.structure.rooms import ROOMS

_PROGRAMS = r"'[\w/-]*(?:redis-server|valkey-server|haproxy|locust|nginx|uvicorn|gunicorn)'"
DOORS = re.compile(
    r"\.(?:accept|add_reader|bind|connect_accepted_socket|sock_accept|start_serving|serve_forever|fromfd|listen\(\d)\b"
    r"|\.(?:create_(?:unix_)?server|create_tcp_listener|start_(?:unix_)?server|run_app|server_bind)\b|fileno="
    r"|\b(?:TCP|Unix|Sock|NamedPipe)Site\b|\w*(?:Tcp|TCP|UDP|Unix|HTTP)\w*Server\b"
    r"|\b(?:uvicorn\.(?:\w+\.)?(?:run|Server|Config)\b|hypercorn\.|granian\.|gunicorn\.\w+\()|run\(transport='(?!stdio)"
    rf"|\b(?:which|Process|Popen|run|started|system|python)\(\[?{_PROGRAMS}|'-m', {_PROGRAMS}"
)
"""Calls, classes and programs that listen, or take a connection that somebody else made."""
CREDENTIALS = re.compile(
    r"\[b?'(?i:authorization|cookie|x-api-key)'\] = |b?'(?i:authorization|cookie|x-api-key)'(?:: |, \w)"
    r"|\bCREDENTIAL: |'auth': |(?<!\w)(?:auth|password|sentinel_kwargs)=(?!None)|dict\(self\.credentials"
    r"|\bB(?:earer|asic) [{%]|\b(?:headers|params|cookies|query)=\{[^}\n]*(?:token|secret|password|key)"
    r"|[?&#][\w-]*token=\{|://[^/@'\s]*:\{\w*pass|\b(?:set_cookie|add_header|BasicAuth|from_url|parse_url)\("
    r"|'(?:[A-Z]+_)+(?:KEYS?|TOKEN|SECRET|PASSWORD|STORE_URL)'(?:: |\] = )"
    r"|\b(?:ADMIN_TOKEN|(?:ROUTER_)?KEYS)(?:: |\] = )"
)
"""What puts a credential into a request, an address, or the environment of a child."""
CONFIGURED = re.compile(r"^\s*(?:bind|EXPOSE)\s|containerPort|^\s*ports: \[", re.MULTILINE)
"""What opens a port in the configuration of a program, an image, a pod or compose."""
IN_CONFIGURATIONS = re.compile(r"set-header (?:framehold-proof|authorization)|include \"framehold\.derive\"")
"""What sends a credential from a load balancer, or has a pod derive one."""
IN_SCRIPTS = re.compile(r"Authorization|document\.cookie|credentials: *[\"'](?!omit)")
"""What sends a credential from a script of a page."""

_KINDS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def shipped() -> Iterator[tuple[str, str]]:
    """Each module that ships, by its dotted name, with its text."""
    for package, folder in ROOMS.items():
        for path in sorted((folder / package).rglob("*.py")):
            module = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
            yield module, path.read_text(encoding="utf-8")


def pieces(text: str) -> dict[str, str]:
    """What a module does itself, and what each function and class of it does, by their qualified names: without
    imports, comments, docstrings, and what is defined within."""
    tree, found = ast.parse(text), {"": ""}
    names = dict(_imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    _read(tree, "", found)
    return found


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What each name stands for that is imported from elsewhere, or under another name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.asname, alias.name) for alias in node.names if alias.asname)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _read(node: ast.AST, name: str, found: dict[str, str]) -> None:
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, _KINDS):
                inner = f"{name}.{child.name}".lstrip(".")
                found[inner] = ""
                _read(child, inner, found)
            elif isinstance(child, ast.stmt) and any(isinstance(each, _KINDS) for each in ast.walk(child)):
                _read(child, name, found)
            elif isinstance(child, ast.AST) and field != "returns" and not _does_nothing(child):
                found[name] += f"{ast.unparse(child)}\n"


def _does_nothing(node: ast.AST) -> bool:
    """Whether it is an import, a list of parameters or a docstring."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, ast.Import | ast.ImportFrom | ast.arguments)


def found(what: re.Pattern[str]) -> set[str]:
    """The places in all packages that ship: `module:function`, or a module alone for what is in no function."""
    return {
        f"{module}:{name}".rstrip(":")
        for module, text in shipped()
        if what.search(text.replace('"', "'"))
        for name, piece in pieces(text).items()
        if what.search(piece)
    }
