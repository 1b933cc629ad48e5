"""Serves the API: parses a request as its row in the table of routes says, and writes the answer as JSON or CSV.

The law: a request that doesn't fit its model is refused. The error names the field and does not repeat its value, which
may be a token.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import quote

from aiohttp import web
from pydantic import BaseModel, ValidationError

from framehold_fleet.models.calls import CallsView, LeasesView
from framehold_fleet.models.events import EventView
from framehold_fleet.models.fields import printable
from framehold_fleet.models.nodes import AccessView, ErrorView, NodesView, OverviewView

from . import actions, call, calls, capacity, failovers, fleet, history, leases, node, tools
from .access import Access
from .openapi import document
from .overview import Overview, Rates
from .routes import BASE, ROUTES, Answer, Route
from .sources import ApiRequest, RequestDenied, Sources
from .stream import Full, Stream
from .tables import table

Model = TypeVar("Model", bound=BaseModel)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_HEADER = 4000
"""Characters of a header at most: many clients read no more than 8 kB."""
_FULL = "too many readers, or this router ends: nothing is sent; try again, or ask for overview, nodes and events"


class Api:
    """The API of one router. Close `stream` before waiting for requests under way: its responses never end by
    themselves."""

    def __init__(self, sources: Sources, access: Access) -> None:
        self._sources, self._access = sources, access
        rates = Rates(time.monotonic, sources.retries)
        sources.survey.noted = rates.note
        failures = failovers.Failovers()
        self._overview = Overview(rates, failures)
        self.stream = Stream(self._look)
        self._answers: dict[str, Answer] = {
            "access": self._access_view,
            "overview": self._overview.answer,
            "nodes": fleet.nodes,
            "node": node.answer,
            "capacity": capacity.answer,
            "history": history.answer,
            "tools": tools.answer,
            "waiting": tools.waiting,
            "ring": fleet.ring,
            "leases": leases.answer,
            "call": call.answer,
            "calls": calls.answer,
            "failovers": failures.answer,
            "events": fleet.events,
            "lookup": call.lookup,
            "drain": actions.drain,
            "cancel": actions.cancel,
            "evict": actions.evict,
            "pause": actions.pause,
            "resume": actions.resume,
            "undrain": actions.undrain,
            "kill": actions.kill,
        }
        self._plain: dict[str, Handler] = {"stream": self._stream, "openapi": self._openapi}
        self._document = json.dumps(document())

    def mount(self, app: web.Application) -> None:
        """Add all routes of the table."""
        for route in ROUTES:
            app.router.add_route(route.method, BASE + route.path, self._handler(route))

    def _handler(self, route: Route) -> Handler:
        if route.view is None:
            return self._plain[route.answers]
        answer = self._answers[route.answers]

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                form, query = _query(request, route)
                body = None if route.body is None else _read(route.body, await request.read())
                asked = ApiRequest(request.match_info, query, body, request.headers)
                return shown(request, await answer(self._sources, asked), form, route)
            except RequestDenied as refused:
                return in_json(refused.view, refused.status)

        return handle

    async def _access_view(self, sources: Sources, asked: ApiRequest) -> AccessView:
        """`GET access`."""
        return self._access.view(asked.headers)

    async def _look(self) -> tuple[OverviewView, NodesView, list[EventView]]:
        asked = ApiRequest({})
        overview, found = await asyncio.gather(
            self._overview.answer(self._sources, asked), fleet.nodes(self._sources, asked)
        )
        return overview, found, overview.events

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self.stream.serve(request)
        except Full:
            return in_json(ErrorView(error=_FULL), 503)

    async def _openapi(self, _: web.Request) -> web.StreamResponse:
        return web.Response(text=self._document, content_type="application/json")


def in_json(view: BaseModel, status: int = 200) -> web.Response:
    """A response with `view` as JSON."""
    return web.Response(status=status, text=view.model_dump_json(), content_type="application/json")


def shown(request: web.Request, view: BaseModel, form: str, route: Route) -> web.Response:
    """A response with `view` in the wanted form, `csv` or `json`. CSV has rows only, so the cursor of the next page and
    what is missing are sent in headers."""
    if form != "csv":
        return in_json(view, route.status)
    response = web.Response(text=table(view), content_type="text/csv", charset="utf-8")
    if isinstance(view, LeasesView | CallsView):
        if view.next is not None:
            target = request.rel_url.update_query(after=view.next)
            response.headers["Link"] = f'<{target.raw_path_qs}>; rel="next"'
        if isinstance(view, CallsView):
            response.headers.update({"Stale": "true"} if view.stale else {})
        elif view.missing:
            missing = ",".join(quote(node, safe="") for node in view.missing)
            response.headers["Missing-Nodes"] = missing[:_HEADER]
    return response


def _query(request: web.Request, route: Route) -> tuple[str, BaseModel]:
    """The wanted form of the answer (`json` or `csv`), and the parsed query.

    Raises:
        Refused: a parameter is wrong.
    """
    given = dict(request.query)
    if len(given) < len(request.query):
        raise RequestDenied(400, "a parameter is given twice: nothing was returned; give each once")
    form = given.pop("format", None) if route.listed else None
    if form is None:
        accept = request.headers.get("Accept", "") if route.listed else ""
        form = "csv" if "text/csv" in accept and "application/json" not in accept else "json"
    if form not in ("csv", "json"):
        raise RequestDenied(400, "format is wrong: there are json and csv")
    return form, _fit(route.query.model_validate, given)


def _read(kind: type[Model], body: bytes) -> Model:
    """The body, parsed as `kind`.

    Raises:
        Refused: it doesn't fit.
    """
    return _fit(kind.model_validate_json, body)


def _fit(read: Callable[[Any], Model], given: Any) -> Model:
    try:
        return read(given)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        name = printable(".".join(map(str, first["loc"]))) or "the body"
        raise RequestDenied(400, f"{name} is wrong: {first['msg']}; nothing was returned or done") from None
