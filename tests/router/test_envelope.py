"""What a request says of where it belongs: read from whatever a client sends, and never a traceback."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framehold_core import token
from framehold_core.errors import ProtocolError
from framehold_core.ids import Boot, CallId, NodeId
from framehold_fleet.http_client.upstream import Upstream
from framehold_fleet.http_server.message import Request
from framehold_fleet.http_server.request_head import RequestHead
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members import session_ids
from framehold_router import app
from framehold_router.config import RouterSettings
from framehold_router.routing.placement import Placer
from framehold_router.routing.request_facts import WITH_SAGAS, Facts, RequestKind, read

CALL = CallId("0123456789abcdef0123456789abcdef")
TOKEN = token.hold(CALL, "sealed.with.dots")
SAGA = token.hold(CALL, "saga.sealed")
MODERN = (b"mcp-protocol-version", b"2026-07-28")
ANY, START, RETRY = Facts(RequestKind.ANY), Facts(RequestKind.START), Facts(RequestKind.RETRY, call=CALL)
CALLS = ("tools/call", "prompts/get", "resources/read")


def message(method: str = "tools/call", **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def request(body: bytes, *headers: tuple[bytes, bytes], method: bytes = b"POST") -> Request:
    return Request(RequestHead(method, b"/mcp", [(b"host", b"a"), *headers], "127.0.0.1"), body)


@pytest.mark.parametrize("method", CALLS)
def test_a_call_without_a_token_starts_one_on_2026_07_28_only(method: str) -> None:
    """On an older revision a call can't suspend: its place is not for a ring to decide. A token names its call."""
    for headers, facts in (((MODERN,), START), ((), ANY), (((b"mcp-protocol-version", b"2025-11-25"),), ANY)):
        assert read(request(message(method), *headers)) == facts
        assert read(request(message(method, requestState=TOKEN), *headers)) == RETRY


def test_a_sagas_token_names_its_call() -> None:
    saga = partial(read, methods=WITH_SAGAS)
    for headers in ((), (MODERN,)):
        assert saga(request(message("tools/resumeSaga", sagaToken=SAGA), *headers)) == RETRY
    stateless = message("tools/resumeSaga", sagaToken="s1.saga.x", completedSteps=[])
    assert saga(request(stateless, MODERN)) == START
    assert saga(request(stateless)) == ANY
    assert saga(request(message("tools/resumeSaga", requestState=TOKEN), MODERN)) == START
    assert saga(request(message("tools/call", sagaToken=SAGA), MODERN)) == START
    assert saga(request(message("tools/callSaga", name="x"), MODERN)) == START
    assert saga(request(message("tools/callSaga", name="x"))) == ANY


def test_where_sagas_are_off_their_methods_are_any_others() -> None:
    """An author may have one of that name: to send it twice would run it twice. The router's setting decides."""
    body = message("tools/resumeSaga", sagaToken=SAGA)
    assert read(request(body, MODERN)) == read(request(message("tools/callSaga", name="x"), MODERN)) == ANY
    placer, settings = cast(Placer, None), RouterSettings(keys=("k" * 32,))
    for sagas, facts in ((False, ANY), (True, RETRY)):
        chosen = settings.model_copy(update={"sagas": sagas})
        relay = app._relay(None, placer, cast(Upstream, None), Trust([b"k"]), chosen, "pages")
        assert relay.read(request(body, MODERN)) == facts


@pytest.mark.parametrize(
    "state", ["", "s1.abc", "h1", "h1.", "h1.short.x", f"h1.{CALL}.", f"h2.{CALL}.x", "h1.a/b.c", "h1.\ud800", None]
)
def test_a_token_that_names_no_call_is_as_good_as_none(state: str | None) -> None:
    """A stateless one may be served anywhere; a malformed one is refused by the node that it reaches."""
    assert read(request(message(requestState=state), MODERN)) == START
    assert read(request(message(requestState=state))) == ANY


@pytest.mark.parametrize("method", [b"POST", b"GET", b"DELETE"])
def test_a_session_names_its_node(method: bytes) -> None:
    named = session_ids.wrap(NodeId("node-1"), Boot("b0"), "abc.def").encode()
    found = read(request(message(requestState=TOKEN), (b"mcp-session-id", b" " + named + b"\t"), MODERN, method=method))
    assert found == Facts(RequestKind.SESSION, node=NodeId("node-1"))


@pytest.mark.parametrize("named", [b"", b"abc", b"l1.node.boot", b"l1..b.c", b"l1.a.b.\xff", b"l1.a/../b.c.d", b"\x00"])
def test_a_session_id_of_somebody_else_names_none(named: bytes) -> None:
    assert read(request(message(requestState=TOKEN), (b"mcp-session-id", named))) == RETRY


HOSTILE = {
    "nothing": b"",
    "no JSON": b"{",
    "a batch": b"[" + message(requestState=TOKEN) + b"]",
    "two messages": message(requestState=TOKEN) * 2,
    "a text": b'"tools/call"',
    "params as a list": b'{"method":"tools/call","params":["h1"]}',
    "a token that is a number": b'{"method":"tools/call","params":{"requestState":1}}',
    "a method that is an object": b'{"method":{},"params":{}}',
    "nested lists": b'{"method":"tools/call","params":{"arguments":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "nested objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "no UTF-8 in the token": b'{"method":"tools/call","params":{"requestState":"h1.\xff\xfe"}}',
    "a method that is a huge number": b'{"method":' + b"9" * 100_000 + b"}",
    **{
        f"method {name!r}": message(name, requestState=TOKEN)
        for name in ("tools/list", "", "Tools/Call", "tools/call ")
    },
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_other_messages_belong_anywhere(body: bytes) -> None:
    """What can't be read never raises: the node that it reaches says what is wrong with it. Only a POST has a body."""
    assert read(request(body, MODERN)) == ANY
    assert read(request(message(requestState=TOKEN), MODERN, method=b"GET")) == ANY


READABLE = {
    "a byte order mark": b"\xef\xbb\xbf" + message(requestState=TOKEN),
    "UTF-16": message(requestState=TOKEN).decode().encode("utf-16"),
    "a lone surrogate elsewhere": message(requestState=TOKEN, name="\ud800"),
    "a huge number elsewhere": message(requestState=TOKEN).replace(b'"id": 1', b'"id": 1' + b"0" * 100_000),
    "an escaped NUL elsewhere": message(requestState=TOKEN, name="\0"),
    "an escaped key": message(requestState=TOKEN).replace(b"requestState", b"request\\u0053tate"),
    "a key given twice": message(requestState=TOKEN).replace(
        b'{"requestState', b'{"requestState":"s1.x","requestState'
    ),
}


@pytest.mark.parametrize("body", READABLE.values(), ids=READABLE)
def test_what_is_odd_elsewhere_hides_no_token(body: bytes) -> None:
    assert read(request(body, MODERN)) == RETRY


BIG = 4 * 1024 * 1024
FULL = {
    "one text": message(requestState=TOKEN, arguments={"a": "x" * BIG}),
    "a token": message(requestState=f"h1.{CALL}." + "x" * BIG),
    "keys": message(requestState=TOKEN, arguments=dict.fromkeys(map(str, range(BIG // 14)), 1)),
    "numbers": message(requestState=TOKEN, arguments=[1] * (BIG // 3)),
    "dots": message(requestState="h1." + "." * BIG),
}


@pytest.mark.parametrize("body", FULL.values(), ids=FULL)
def test_the_largest_body_costs_a_bounded_time(body: bytes) -> None:
    """4 MiB take milliseconds; half a second allows for a busy machine, and for nothing quadratic."""
    started = time.perf_counter()
    assert read(request(body, MODERN)).kind in (RequestKind.RETRY, RequestKind.START)
    assert time.perf_counter() - started < 0.5


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(TOKEN),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("requestState", "a")), inner, max_size=2)
    ),
    max_leaves=6,
)
bodies = st.one_of(
    st.binary(max_size=200),
    st.builds(
        lambda method, params: json.dumps({"method": method, "params": params}).encode(),
        st.sampled_from(CALLS) | json_values,
        json_values,
    ),
    # A valid message with a few bytes of it overwritten.
    st.builds(
        lambda at, junk: message(requestState=TOKEN)[:at] + junk + message(requestState=TOKEN)[at + len(junk) :],
        st.integers(0, 150),
        st.binary(min_size=1, max_size=4),
    ),
)
headers = st.lists(
    st.tuples(
        st.sampled_from((b"mcp-session-id", b"mcp-protocol-version", b"x")),
        st.binary(max_size=30) | st.just(b"2026-07-28"),
    ),
    max_size=4,
)


@given(bodies, headers, st.sampled_from((b"POST", b"GET", b"")))
def test_no_request_raises(body: bytes, text: list[tuple[bytes, bytes]], method: bytes) -> None:
    facts = read(Request(RequestHead(method, b"/mcp", text, ""), body))
    assert (facts.call is not None) == (facts.kind is RequestKind.RETRY)
    assert (facts.node is not None) == (facts.kind is RequestKind.SESSION)


node_ids = st.from_regex(r"[0-9A-Za-z][0-9A-Za-z_-]{0,62}", fullmatch=True).map(NodeId)
boots = st.from_regex(r"[0-9A-Za-z_-]{1,64}", fullmatch=True).map(Boot)
ids = st.from_regex(r"[!-~]{1,200}", fullmatch=True)


BAD = [
    *((node, "b", "c") for node in ("", "a.b", "-a", "a" * 64, "a\n")),
    *(("a", boot, "c") for boot in ("", "b.c", "b" * 65, "b\n", "ü")),
    *(("a", "b", session) for session in ("", "c d", "c\n", "é", "x" * 201)),
]


@pytest.mark.parametrize(("node", "boot", "session"), BAD)
def test_a_session_id_that_is_none_is_neither_written_nor_read(node: str, boot: str, session: str) -> None:
    """A client would come back with such an id, and get the answer that there is no session."""
    with pytest.raises(ProtocolError):
        session_ids.wrap(NodeId(node), Boot(boot), session)
    assert session_ids.parse(f"l1.{node}.{boot}.{session}") != (node, boot, session)


@given(node_ids, boots, ids, st.text() | st.text(alphabet="l1.ab-_ \n/"))
def test_a_session_id_reads_as_it_was_written(node: NodeId, boot: Boot, session: str, other: str) -> None:
    assert session_ids.parse(session_ids.wrap(node, boot, session)) == (node, boot, session)
    found = session_ids.parse(other)
    assert found is None or session_ids.wrap(*found) == other
