"""The fleet in a browser: the files of `assets/`, and how they are served under `/dashboard`.

The law: what is served was read once, before the first request, and is found by its name alone: no path of a request is
joined to one of this machine. Whatever is no file of `assets/` is a page's address, and gets the one shell that draws
all pages; it holds no data, so anybody may have it. The shell's policy runs and loads what comes from this router, and
nothing else: of what stands in the shell itself only the import map, by its digest.
"""

from __future__ import annotations

import gzip
import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from aiohttp import web

ASSETS = files(__name__) / "assets"

_SHELL = "index.html"
_KINDS = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "mjs": "text/javascript",
    "svg": "image/svg+xml",
    "txt": "text/plain",
}
_INLINE = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)


class File(NamedTuple):
    """One file as it is sent."""

    body: bytes
    packed: bytes
    """The same by gzip."""
    kind: str
    tag: str
    """Of the body's digest."""


def file_of(name: str, body: bytes) -> File:
    """The file of this name."""
    # No time in it: all routers of one release send the same.
    packed = gzip.compress(body, mtime=0)
    return File(body, packed, _KINDS[name.rpartition(".")[2]], sha256(body).hexdigest())


@cache
def assets() -> dict[str, File]:
    """All files by their names below `assets/`, the shell among them."""
    return {name: file_of(name, path.read_bytes()) for name, path in _walk(ASSETS, "")}


def _walk(folder: Traversable, above: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for path in folder.iterdir():
        if path.is_dir():
            found += _walk(path, f"{above}{path.name}/")
        elif path.name.rpartition(".")[2] in _KINDS:
            found.append((above + path.name, path))
    return found


def policy(shell: bytes) -> str:
    """The Content-Security-Policy of a shell."""
    maps = "".join(f" 'sha256-{b64encode(sha256(text).digest()).decode()}'" for text in _INLINE.findall(shell))
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self'{maps}",
            "style-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        )
    )


class Dashboard:
    """Answers what is under `/dashboard`, from files such as `assets()`."""

    def __init__(self, found: dict[str, File]) -> None:
        self._files = {name: file for name, file in found.items() if name != _SHELL}
        self._shell = found[_SHELL]
        self._policy = policy(self._shell.body)

    def mount(self, app: web.Application) -> None:
        """Add its routes. The access to each is in the table of `api.routes`."""
        app.router.add_get("/dashboard", self._page)
        app.router.add_get("/dashboard/assets/{path:.*}", self._asset)
        app.router.add_get("/dashboard/{page:.*}", self._page)

    async def _page(self, request: web.Request) -> web.Response:
        response = _sent(request, self._shell)
        response.headers["Content-Security-Policy"] = self._policy
        return response

    async def _asset(self, request: web.Request) -> web.Response:
        file = self._files.get(request.match_info["path"])
        if file is None:
            raise web.HTTPNotFound
        return _sent(request, file)


def _sent(request: web.Request, file: File) -> web.Response:
    # Weak, since the same names both forms; a browser asks each time, and after an upgrade gets the new ones at once.
    headers = {"ETag": f'W/"{file.tag}"', "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if any(etag.value in (file.tag, "*") for etag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    body = file.body
    if _takes_gzip(request.headers.get("Accept-Encoding", "")):
        body, headers["Content-Encoding"] = file.packed, "gzip"
    return web.Response(body=body, headers=headers, content_type=file.kind, charset="utf-8")


def _takes_gzip(accepted: str) -> bool:
    """Whether an `Accept-Encoding` names gzip, and not to refuse it (RFC 9110, section 12.5.3)."""
    for said in accepted.split(","):
        coding, _, weight = said.partition(";")
        if coding.strip().lower() in ("gzip", "x-gzip"):
            return not re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", weight, re.IGNORECASE)
    return False
