"""A fake router with replies that a test sets, which remembers its requests; and commands run in this process."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlsplit

import pytest

from framehold_cli import main
from framehold_router.api.signature import PROOF, Signatures

TOKEN = "0123456789abcdef"
"""The admin token of a fake router."""
NOW = 1_790_000_000.0
NODE: dict[str, Any] = {
    "node_id": "n1",
    "incarnation": "i",
    "boot": "b1",
    "state": "live",
    "address": "http://127.0.0.1:1",
    "pid": 7,
    "parked": 2,
    "in_flight": 0,
    "version": "0.1.0",
}
OVERVIEW: dict[str, Any] = {
    "at": NOW,
    "version": "0.1.0",
    "nodes": {"live": 1},
    "parked": 2,
    "in_flight": 0,
    "orphaned": 0,
    "stuck": 0,
    "failovers_last_hour": 0,
    "events": [],
}
WAIT = "2 (looked up 3s ago): their nodes are gone; each goes on elsewhere when its client comes back"
OPEN: dict[str, Any] = {"orphaned": {"count": 2, "at": NOW - 3, "text": WAIT}, "looked": 9, "total": 2}
"""An account of open calls in which two are orphaned."""
CALL = "0123456789abcdef0123456789abcdef"
LEASE: dict[str, Any] = {
    "call_id": CALL,
    "tool": "book",
    "node_id": "n1",
    "state": "parked",
    "reentrant": True,
    "epoch": 1,
    "round": 2,
}


def problem(severity: str = "harm", **other: Any) -> dict[str, Any]:
    """A problem as a router reports it."""
    fields = {"kind": "node_unreachable", "node": "n1", "text": "n1 doesn't answer at http://127.0.0.1:1"}
    return {"severity": severity, **fields, "next": "look at its log", "link": "/dashboard/nodes/n1", **other}


class Asked(NamedTuple):
    """One request: its method, path, query, headers (names in lower case) and body. `token`: the one of the fake
    router's that it was signed with."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = b""
    token: str | None = None


@dataclass
class FakeRouter:
    """`says`: the replies (status and body) by `METHOD path`. The last of several is repeated. `tokens`: those that it
    proves to have. `asked`: the requests, but for those for a proof."""

    url: str = ""
    tokens: tuple[str, ...] = (TOKEN,)
    says: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def say(self, what: str, *bodies: Any, status: int = 200) -> None:
        """Reply to `GET /api/v1/<what>`, or to `METHOD what`, with these bodies one after the other."""
        key = what if " " in what else f"GET {what}"
        self.says[key] = [(status, body) for body in bodies]

    def refuse(self, what: str, status: int, error: str) -> None:
        self.say(what, {"error": error}, status=status)

    def answer(self, asked: Asked) -> tuple[int, bytes]:
        if asked.path == "/api/v1/access":
            return self.says.get("GET access", [(200, b"{}")])[0]
        self.asked.append(asked)
        key = f"{asked.method} {asked.path.removeprefix('/api/v1/')}"
        left = self.says.get(key, [(404, b"no")])
        status, body = left[0] if len(left) == 1 else left.pop(0)
        return status, body if isinstance(body, bytes) else json.dumps(body).encode()


@contextmanager
def fake_router() -> Iterator[FakeRouter]:
    """A fake router of a fleet with one live node that holds two calls, until the test sets other replies."""
    router = FakeRouter()
    router.say("overview", OVERVIEW)
    router.say("nodes", {"nodes": [NODE]})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            sent = self.rfile.read(int(headers.get("content-length", 0)))
            signed = Signatures(router.tokens).read(self.command, self.path, headers.get("authorization", ""))
            token = None if signed is None else signed.token
            status, body = router.answer(
                Asked(self.command, parts.path, dict(parse_qsl(parts.query)), headers, sent, token)
            )
            self.send_response(status)
            if signed is not None:
                self.send_header(PROOF, signed.proof)
            if 300 <= status < 400:
                self.send_header("Location", body.decode())
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        router.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield router
        finally:
            server.shutdown()
            thread.join()


class Told(NamedTuple):
    """The result of a command: exit code, standard output and standard error."""

    code: int
    out: str
    err: str


class Addressed(Protocol):
    """Anything with a router's address."""

    @property
    def url(self) -> str: ...


class Operator:
    """Runs commands at a router, in this process, without a terminal unless the test sets one."""

    def __init__(self, router: Addressed, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]) -> None:
        self.router, self._patch, self._captured = router, patch, captured

    def __call__(self, *words: str) -> Told:
        self._patch.setattr(sys, "argv", ["framehold", *words, "--url", self.router.url])
        with pytest.raises(SystemExit) as ended:
            main()
        result = self._captured.readouterr()
        assert isinstance(ended.value.code, int)
        return Told(ended.value.code, result.out, result.err)
