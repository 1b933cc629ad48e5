"""What a client of 2025 is told when the process of its session gave no response."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.types import Message, Receive, Scope, Send

from framehold.engine.runtime import Runtime
from framehold.http.body import Reception
from framehold.http.forward import Forward, ForwardResult
from framehold.http.session_affinity import SessionAffinity
from framehold.sdk.hop import Hop

pytestmark = pytest.mark.anyio

TOLD = {
    ForwardResult.ANSWERED: None,
    ForwardResult.BROKEN: (502, "whether it served the request is not known"),
    ForwardResult.VANISHED: (502, "whether it served the request is not known"),
}
"""Everything else sent nothing."""


@pytest.mark.parametrize("result", ForwardResult)
async def test_who_may_send_a_request_again_is_told_so(result: ForwardResult) -> None:
    """503 and `send the same request again` only where nothing was sent: else an effect would run twice."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    async def nobody(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("this process does not have the session")

    class Forwarding:
        async def forward(self, *_: Any) -> ForwardResult:
            return result

    eviction = SimpleNamespace(intake=1000, room=lambda: None)
    runtime = cast(Runtime, SimpleNamespace(settings=SimpleNamespace(max_body=1000), eviction=eviction))
    affinity = SessionAffinity(nobody, runtime, cast(Forward, Forwarding()), Reception(runtime))
    scope = {"type": "http", "method": "POST", "headers": [], "framehold": Hop("node", False)}
    await affinity._forward_to("http://other", scope, receive, send)
    told = TOLD.get(result, (503, "nothing was sent; send the same request again"))
    if told is None:
        assert sent == []
    else:
        assert (sent[0]["status"], told[1] in sent[1]["body"].decode()) == (told[0], True)
