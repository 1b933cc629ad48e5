"""The dashboard: serves the files of `assets/` under `/dashboard`.

The law: all files are read once, before the first request, and are looked up by name. No path of a request is joined to
a path of this machine. Every other path under `/dashboard` is the address of a page, and gets the shell, the one HTML
file that draws all pages. The shell holds no data, so it needs no token. Its Content-Security-Policy allows only what
this router serves; of the inline scripts it allows only the import map, by its digest.
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
    """A file as it is sent. `kind` is its content type."""

    body: bytes
    packed: bytes
    """The body, compressed by gzip."""
    kind: str
    tag: str
    """The digest of the body, for the ETag."""


def file_of(name: str, body: bytes) -> File:
    """The file `name` with this body."""
    # Without a time in it, so that all routers of one release send the same bytes.
    packed = gzip.compress(body, mtime=0)
    return File(body, packed, _KINDS[name.rpartition(".")[2]], sha256(body).hexdigest())


@cache
def assets() -> dict[str, File]:
    """All files, the shell included, by their paths below `assets/`."""
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
    """Answers requests under `/dashboard` with the files `found`, which `assets()` gives."""

    def __init__(self, found: dict[str, File]) -> None:
        self._files = {name: file for name, file in found.items() if name != _SHELL}
        self._shell = found[_SHELL]
        self._policy = policy(self._shell.body)

    def mount(self, app: web.Application) -> None:
        """Add the routes of the dashboard to `app`. The table in `api.routes` has their access."""
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
    # A weak ETag, because one tag stands for both the plain and the gzip form. With no-cache a browser asks each time,
    # so that it gets the new files at once after an upgrade.
    headers = {"ETag": f'W/"{file.tag}"', "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if any(etag.value in (file.tag, "*") for etag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    body = file.body
    if _takes_gzip(request.headers.get("Accept-Encoding", "")):
        body, headers["Content-Encoding"] = file.packed, "gzip"
    return web.Response(body=body, headers=headers, content_type=file.kind, charset="utf-8")


def _takes_gzip(accepted: str) -> bool:
    """Whether an `Accept-Encoding` names gzip, and not to refuse it (RFC 9110, section 12.5.3)."""
    for item in accepted.split(","):
        coding, _, weight = item.partition(";")
        if coding.strip().lower() in ("gzip", "x-gzip"):
            return not re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", weight, re.IGNORECASE)
    return False
