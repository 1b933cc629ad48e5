"""Serves ordinary rounds (`ordinary`), from the ASGI scope to the bytes of the response.

The law: what this node has against a request is found before its round begins. Then the request goes to the entry with
its body replayed, and the entry refuses it. Once a round has begun, core decides as for every other round, and what it
refuses is replied in the words of the entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import Context, copy_context
from typing import Any

import mcp_types as types
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.connection import Connection
from mcp.server.runner import aclose_shielded, modern_error_data
from starlette.requests import Request as HttpRequest
from starlette.types import Message, Receive, Scope, Send

from .. import json_text
from ..engine.replies import Answer, Ended, Parked
from ..frame.asks import Question
from ..frame.logged_call import logged_call
from ..hosts.attached import Attached
from ..sdk import questions, replies
from ..sdk.boundary import Boundary
from ..sdk.hop import KEY, Hop, received
from ..sdk.invocation import HandlerOutcome, Invocation
from ..sdk.plan import GeneralPlan, Plan
from ..sdk.planned_call import PlannedCall
from ..sdk.session import Ctx
from ..sdk.token import Target, Tokens, tokens_of
from ..telemetry import tracing
from .classify import Classified
from .connection import Identity
from .entry import HttpEntry
from .exchange import Exchange
from .intake import Intake
from .ordinary import Ordinary, Recognition

LARGEST = 64 * 1024
"""Bytes of a body up to which a request may be an ordinary round."""


class OrdinaryRequest(Exchange):
    """The request of an ordinary round: it carries its round, and writes its response."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, data: bytes, found: Ordinary, rounds: OrdinaryRounds
    ) -> None:
        request_id = found.id[1:-1].decode() if found.id[:1] == b'"' else int(found.id)
        super().__init__(scope, receive, request_id, found.client.progress, send)
        self.data, self.found, self._rounds = data, found, rounds
        self.came, self.variables = rounds.clock.time(), copy_context()
        self.handler_context: Context | None = None
        self.lifespan_state = rounds.attached.lifespan_state
        """What the lifespan of the server has yielded."""
        self.ending: asyncio.Task[None] | None = None
        self._connection: Identity | None = None
        self._ctx: Ctx | None = None

    @property
    def connection(self) -> Connection:
        """The connection of the request. Its handler begins with it."""
        if self._connection is None:
            self._connection = Identity(self.found.client.connection)
        return self._connection

    @property
    def ctx(self) -> Ctx:
        """The context of the request, as the entry would make it."""
        if self._ctx is None:
            self._ctx = self._rounds.context_of(self)
        return self._ctx

    @property
    def hop(self) -> Hop:
        """The last step of the request."""
        return self._rounds.hop_of(self)

    @property
    def request(self) -> HttpRequest:
        """The HTTP request, without internal headers."""
        if self._request is None:
            self._rounds.hop_of(self)
            body = {"type": "http.request", "body": self.data, "more_body": False}
            self._request = HttpRequest(self.scope, _again(body, self.receive))
        return self._request

    async def leave(self) -> None:
        """The response has ended."""
        if not self.closed:
            self.close()
        # It refers to this request: a reference cycle.
        self._ctx = None
        if self._connection is not None:
            self._connection.leave()
            if self._connection.used:
                await aclose_shielded(self._connection)

    # ---- as the carrier of its round

    def refusal(self, question: Question) -> HandlerOutcome | None:
        """The outcome that ends the call if the client can't be asked; see `RoundCarrier`."""
        error = questions.missing(question, self.found.client.connection.client_capabilities)
        return None if error is None else HandlerOutcome(error=error)

    def taken_over(self) -> None:
        """This node took the call over."""
        self.hop.route = b"takeover"

    @property
    def may_be_passed_on(self) -> bool:
        """Whether the request may be passed on to a node that need not hold its call."""
        return self.hop.offers

    def passed_on(self, address: str) -> None:
        """The request goes to such a node."""
        self.hop.offers, self.hop.offered_to = False, address

    def runs_kept_code(self) -> None:
        """The call goes on with kept code."""
        self.hop.code = b"kept"


class OrdinaryRounds:
    """Serves the ordinary rounds of one server. `entry` serves all other requests."""

    def __init__(
        self,
        attached: Attached,
        entry: HttpEntry,
        intake: Intake,
        recognition: Recognition,
        tokens: Tokens,
        boundary: Boundary,
    ) -> None:
        self.attached, self._entry, self._intake = attached, entry, intake
        self._recognition, self._tokens, self._boundary = recognition, tokens, boundary
        self.heads = entry.heads
        self._runtime, self.clock = attached.runtime, attached.runtime.clock
        self._most = attached.settings.max_body
        self._limit = min(LARGEST, self._most)
        identity = json_text.write({types.SERVER_INFO_META_KEY: attached.server.server_info_stamp})
        self._tail = b',"_meta":' + identity + b"}}"

    async def serve(
        self, target: Target, scope: Scope, receive: Receive, send: Send, hop: Hop | None
    ) -> Receive | None:
        """Serve a request whose head is known for `target`, if it is an ordinary round. Returns None then, else the
        `receive` by which the entry gets it. `hop` is its last step, None where that is not known."""
        if isinstance(scope.get("user"), AuthenticatedUser) and get_access_token() is None:
            # Whom a middleware of the author signed in is known to FastMCP, and not to the plan.
            return receive
        message = await receive()
        data = message.get("body", b"")
        if message["type"] != "http.request" or message.get("more_body") or len(data) > self._limit:
            return _again(message, receive)
        # First: to make room may evict the frame that the request is for.
        if (weight := self._intake.take(data, self._most)) < 0:
            return _again(message, receive)
        draining, before = self._runtime.draining, logged_call.get()
        draining.unanswered += 1
        try:
            found = self._recognised(target, data, hop)
            # A request that has to wait for its turn waits at the entry.
            if found is None or not self._entry.turns.is_free():
                return _again(message, receive)
            request = OrdinaryRequest(scope, receive, send, data, found, self)
            if (waiting := self._begun(request, hop, weight)) is None:
                return _again(message, receive)
            await self._served(request, waiting)
            return None
        finally:
            self._intake.give_back(len(data) + weight)
            draining.unanswered -= 1
            if draining.closed:
                draining.responded()
            logged_call.set(before)

    def _recognised(self, target: Target, data: bytes, hop: Hop | None) -> Ordinary | None:
        """The ordinary round; None if it is none, or if this node takes none now."""
        if not self._runtime.takes(target.label) or tracing.has_provider():
            return None
        found = self._recognition.recognise(target, data)
        if found is None:
            return None
        if hop is not None:
            if hop.relayed:
                return None
            hop.distrust_call(data)
        return found

    def _begun(self, request: OrdinaryRequest, hop: Hop | None, weight: int) -> Awaitable[Answer] | None:
        """The reply to a round, which begins now. None, and nothing was done, if it would be refused."""
        found, runtime = request.found, self._runtime
        call: Invocation | None
        if isinstance(found.plan, Plan):
            given = (found.given_arguments, found.raw, found.digest)
            call = PlannedCall(found.plan, request, *given, found.user, weight)
        elif (call := self._general(request, found.plan, weight)) is None:
            return None
        if hop is not None:
            hop.offers, hop.route = True, _ROUTES[found.retried is None]
        if found.retried is not None:
            claims, answers, here = found.retried
            return runtime.resume(claims, answers, call, request, here=here)
        return runtime.begin(call, request, None if hop is None else hop.call)

    def _general(self, request: OrdinaryRequest, plan: GeneralPlan, weight: int) -> Invocation | None:
        """What enters the handler of a request; None if the entry has to look at it."""
        self.hop_of(request).weight = weight
        ctx, params, retried = request.ctx, None, request.found.retried
        given = ctx.params or {}
        if retried is None:
            params = plan.validated(ctx.protocol_version, given)
            if params is None:
                return None
        elif plan.validates_answers and not plan.validated(
            ctx.protocol_version, {**given, "inputResponses": retried.answers}
        ):
            return None
        call = Invocation(plan.seam.wrapped, ctx, params)
        return call if call.strategy == "hold" else None

    async def _served(self, request: OrdinaryRequest, waiting: Awaitable[Answer]) -> None:
        """Wait for the reply of a round, and send it."""
        watches, task = self._entry.watches, asyncio.current_task()
        assert task is not None, "a request is served in a task"
        watches.add(request, request.receive, task.cancel, request.variables)
        heard = False
        try:
            try:
                # No name for the reply: the traceback of an error that it brings would refer to it.
                held, heard = [await waiting], True
                reply = self._reply(request, held)
            except Exception as error:
                await self._fail(request, error, heard)
            else:
                await (request.send_json(reply) if isinstance(reply, bytes) else request.result(reply))
        except asyncio.CancelledError:
            if not request.left or task.uncancel():
                await self._entry.cut_off(request)
                raise
        finally:
            watches.remove(request)
            await request.leave()

    async def _fail(self, request: OrdinaryRequest, error: Exception, heard: bool) -> None:
        """Send the error of a round, or have another node serve it. `heard` says whether the engine has replied: then
        the error is the handler's."""
        found = request.found
        if not heard:
            error = found.plan.seam.failure(error, found.target.label, begins=found.retried is None)
        if isinstance(error, replies.Misdirected):
            self._entry.watches.remove(request)
            await request.leave()
            await self._pass_on(request, error)
        elif isinstance(error, replies.Unavailable):
            if isinstance(error, replies.NotTaken):
                request.hop.prove_not_taken(self._runtime)
            await request.error(error.error, error.retry_after)
        else:
            await request.error(modern_error_data(error))

    async def _pass_on(self, request: OrdinaryRequest, elsewhere: replies.Misdirected) -> None:
        """Forward a round to the node that holds its call, as the entry does."""
        found = Classified(request.request_id, request.found.target.method, json_text.read(request.data)["params"])
        client, receive = request.found.client.connection, request.receive
        # The entry forwards by the hop in the scope.
        self.hop_of(request)
        await self._entry.serve_elsewhere(request, found, client, request.data, receive, elsewhere)

    def _reply(self, request: OrdinaryRequest, held: list[Answer]) -> bytes | dict[str, Any]:
        """The reply in `held`, which is taken out of it: the whole response as JSON, or its result. Raises the error
        that it is."""
        body = self._rendered(request, held[0])
        if body is not None:
            return json_text.read(body)["result"] if request.streaming else body
        found = request.found
        kernel = self._entry.kernel(found.client.connection.protocol_version)
        result = kernel.shaped(found.target.method, found.plan.seam.reply(held.pop()))
        return self._boundary.sealed(request.ctx, result)

    def _rendered(self, request: OrdinaryRequest, answer: Answer) -> bytes | None:
        """The response with questions, or with a result that is rendered; None for any other reply."""
        found = request.found
        head = b'{"jsonrpc":"2.0","id":' + found.id + b',"result":'
        if isinstance(answer, Parked):
            held = self._runtime.heartbeat.lease
            token = self._tokens.seal(answer, held.node, held.boot, found.target, found.digest, found.user)
            questions = json_text.write(answer.questions)
            if _HALF in questions:
                # Then the whole message is escaped.
                return None
            asked = b'{"inputRequests":' + questions + b',"requestState":"' + token.encode()
            return head + asked + b'","resultType":"input_required"' + self._tail
        if isinstance(answer, Ended) and isinstance(answer.outcome, HandlerOutcome) and answer.outcome.rendered:
            return head + answer.outcome.rendered + self._tail
        return None

    # ---- what a request makes only when it is asked for

    def context_of(self, request: OrdinaryRequest) -> Ctx:
        """The context of a request."""
        found = request.found
        kernel = self._entry.kernel(found.client.connection.protocol_version)
        params = {**found.raw, "_meta": json_text.read(found.meta)}
        return kernel.context(request, request.connection, self.attached.lifespan_state, found.target.method, params)

    def hop_of(self, request: OrdinaryRequest) -> Hop:
        """The last step of a request."""
        hop: Hop | None = request.scope.get(KEY)
        if hop is None:
            hop = received(request.scope, request.receive, self._runtime)
            hop.offers, hop.route = True, _ROUTES[request.found.retried is None]
        return hop


class Inside:
    """An entry behind middlewares of the author: its ordinary rounds take the short path from there on."""

    def __init__(self, rounds: OrdinaryRounds, entry: HttpEntry) -> None:
        self._rounds, self._entry = rounds, entry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        target = self._rounds.heads.target(scope)
        again = receive if target is None else await self._rounds.serve(target, scope, receive, send, scope[KEY])
        if again is not None:
            await self._entry(scope, again, send)


def rounds_of(attached: Attached, entry: HttpEntry, intake: Intake) -> OrdinaryRounds | None:
    """Serves the ordinary rounds of a server; None if it has none: the author's code seals its tokens, it is rehearsed,
    or the setting ORDINARY is off."""
    boundary, settings = attached.boundary, attached.settings
    if not settings.ordinary or settings.rehearse or not isinstance(boundary, Boundary):
        return None
    if (tokens := tokens_of(boundary)) is None:
        return None
    plan_of = attached.handlers.host.plan_of(boundary, settings.strategy)
    recognition = Recognition(plan_of, tokens, entry.identities, attached.runtime.table)
    return OrdinaryRounds(attached, entry, intake, recognition, tokens, boundary)


_HALF = rb"\ud"
"""The beginning of half of a surrogate pair in JSON: UTF-8 can't carry it."""
_ROUTES = {True: b"start", False: b"ring"}
"""The route of a request, by whether it begins a call."""


def _again(message: Message, receive: Receive) -> Receive:
    """A `receive` that gives `message` once more, then what follows."""
    first = [message]

    async def replayed() -> Message:
        return first.pop() if first else await receive()

    return replayed
