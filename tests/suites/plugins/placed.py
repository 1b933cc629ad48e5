"""Puts Framehold where the tests of another project meet a server. Both plugins use it.

This folder is on the path of the suite's pytest: the suite has a package `tests` of its own, which hides this one.

Modes, by the variable `SUITE_MODE`:

    attached    `framehold.attach(server)` for each server that a test connects to or serves
    app         attached; and an app of the server has Framehold's application in front, where `framehold.asgi` could
                have made it
    served      a server that a test connects to in memory runs in a process of its own, as the SDK's app over HTTP
    fleet       the same server runs on two nodes with a router and a Redis
"""

from __future__ import annotations

import copy
import functools
import json
import os
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

import framehold
from framehold.hosts.attached import Attached
from framehold.http.app import Application

MODE = os.environ["SUITE_MODE"]
IS_ATTACHED = MODE in ("attached", "app")

placed: Counter[str] = Counter()
"""How often something was placed in this process. Its kinds have the names of the modes; and apps that stay as they are
are counted."""

_authors: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()
"""The MCPServer of each low-level server that has one."""


def remember_authors() -> None:
    """From now on, `author_of` finds the MCPServer of a low-level server."""
    construct = MCPServer.__init__

    def remembering(self: MCPServer[Any], *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        _authors[self._lowlevel_server] = weakref.ref(self)

    MCPServer.__init__ = remembering  # type: ignore[method-assign]  # Framehold in between


def author_of(server: Any) -> Any:
    """The MCPServer whose low-level server `server` is; otherwise `server` itself."""
    found = _authors.get(server) if not isinstance(server, MCPServer) else None
    author = None if found is None else found()
    return server if author is None else author


def attach(server: Any) -> Attached:
    """Attach Framehold to the server that its author made. A test may have registered handlers since the last time."""
    placed["attached"] += 1
    return framehold.attach(author_of(server))


def before(kind: type, name: str, act: Callable[..., object]) -> None:
    """From now on, each call of the method `name` of `kind` calls `act` first, with the same arguments."""
    method = getattr(kind, name)

    @functools.wraps(method)
    def acting(*args: Any, **kwargs: Any) -> Any:
        act(*args, **kwargs)
        return method(*args, **kwargs)

    setattr(kind, name, acting)


def put_in_front(
    app: Starlette, server: Any, security: TransportSecuritySettings, is_running: Callable[[], bool]
) -> None:
    """Give `app` Framehold's application in front. The app stays the same object: the test has its routes and lifespan.

    `is_running`: whether the test has started by itself what the lifespan of the app starts.
    """
    placed["app"] += 1
    inner = copy.copy(app)
    inner.router = copy.copy(app.router)
    inner.router.lifespan_context = _unless(is_running, app.router.lifespan_context)
    application = Application(attach(server), inner, security, author_of(server))
    kind: Any = type(app)

    class Fronted(kind):  # type: ignore[misc]  # its base is a variable
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await application(scope, receive, send)

    app.__class__ = Fronted
    app.router.lifespan_context = application.lifespan


def _unless(is_running: Callable[[], bool], lifespan: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`lifespan`, or one that does nothing if the test has already started what it starts."""

    @asynccontextmanager
    async def running(app: Any) -> AsyncIterator[Any]:
        if is_running():
            yield
        else:
            async with lifespan(app) as state:
                yield state

    return running


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker sends to the main process how often Framehold was placed."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["placed"] = dict(placed)


class Collector:
    """Adds up in the main process what its workers have sent."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """A worker has ended."""
        placed.update(getattr(node, "workeroutput", {}).get("placed", {}))

    def pytest_unconfigure(self) -> None:
        Path(os.environ["SUITE_PLACED"]).write_text(json.dumps(placed))


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Collector(), "framehold-placed")
