"""The path below which an app is mounted in another: routers ask for the pages of a node below it.

    1  the lifespan of the app begins: the prefix is looked up in the routes of the outermost app whose lifespan runs
    2  that app has no such routes, or runs no lifespan: the first request that reaches the app tells it

The outermost app is found in the frames that called: by ASGI each has the `scope` of its lifespan, which names the app.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from types import FrameType
from typing import Any
from urllib.parse import quote

_MAX_DEPTH = 10
"""How deep apps and their middlewares are looked into."""


def found(app: object, parent: object) -> str | None:
    """The prefix of `app` in the routes of the app whose lifespan calls this; None if it is not found there. `parent`
    is an app that may have it too."""
    prefixes = (_below(outer, app, _MAX_DEPTH) for outer in (*_starting(), parent))
    return next((_own(outer) for outer in prefixes if outer is not None), None)


def told(scope: MutableMapping[str, Any]) -> str:
    """The prefix by which a request has reached the app. What the server itself puts before each path is none of it."""
    root = str(scope.get("root_path", ""))
    return _own(root.removeprefix(str(scope.get("app_root_path", ""))))


def _own(path: str) -> str:
    return quote(path.rstrip("/"), safe="/%:@!$&'()*+,;=~")


def _starting() -> list[object]:
    """The apps whose lifespans the calling frames run, the outermost first."""
    apps: list[object] = []
    # Not this function's own frame: its locals would hold it, which is a cycle.
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        scope = frame.f_locals.get("scope")
        if isinstance(scope, MutableMapping) and scope.get("type") == "lifespan" and "app" in scope:
            apps.insert(0, scope["app"])
        frame = frame.f_back
    return apps


def _below(outer: object, app: object, depth: int) -> str | None:
    """The path of `app` in the routes of `outer`, or of what `outer` is wrapped round; None if it is in none."""
    if outer is app:
        return ""
    if outer is None or not depth:
        return None
    for path, inner in _inside(outer):
        if "{" not in path and (below := _below(inner, app, depth - 1)) is not None:
            return f"{path}{below}"
    return None


def _inside(outer: Any) -> Iterator[tuple[str, object]]:
    """The apps in the routes of an app, each with its path; for a middleware the app behind it."""
    routes = getattr(outer, "routes", None)
    for route in routes if isinstance(routes, list | tuple) else ():
        yield str(getattr(route, "path", "")).rstrip("/"), getattr(route, "app", None)
    if routes is None:
        yield "", getattr(outer, "app", None)
