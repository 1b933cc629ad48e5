"""A server that seals its state with a codec of its own: here HMAC over base64, where a real one would call a vault."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, InvalidRequestState, RequestStateSecurity
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from pydantic import BaseModel

MARK = "vault-"
QUESTION = ElicitRequest(
    params=ElicitRequestFormParams(
        message="Which seal?",
        requested_schema={"type": "object", "properties": {"seal": {"type": "string"}}, "required": ["seal"]},
    )
)


class VaultCodec:
    """`vault-<payload>-<tag>`, both in hexadecimal; whatever it did not write itself is refused."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, payload: bytes) -> str:
        """Sign, without hiding: only the tag is a secret's work."""
        return f"{MARK}{payload.hex()}-{self._tag(payload)}"

    def unseal(self, token: str) -> bytes:
        """Return the payload of a token that `seal` made, unaltered."""
        body, _, tag = token.removeprefix(MARK).rpartition("-")
        try:
            payload = base64.b16decode(body.upper())
        except binascii.Error as error:
            raise InvalidRequestState("not a vault token") from error
        if self.seal(payload) != token or not hmac.compare_digest(tag, self._tag(payload)):
            raise InvalidRequestState("not sealed by this vault")
        return payload

    def _tag(self, payload: bytes) -> str:
        return hmac.new(self._key, payload, hashlib.sha256).hexdigest()


class Seal(BaseModel):
    seal: str


def build() -> MCPServer:
    mcp = MCPServer("Notary", request_state_security=RequestStateSecurity(codec=VaultCodec(secrets.token_bytes(32))))

    @mcp.tool()
    async def certify(ctx: Context) -> str | InputRequiredResult:
        answer = (ctx.input_responses or {}).get("seal")
        if not isinstance(answer, ElicitResult) or not answer.content:
            return InputRequiredResult(input_requests={"seal": QUESTION}, request_state="awaiting the seal")
        return f"{answer.content['seal']} after {ctx.request_state}"

    @mcp.tool()
    async def certify_at_once(ctx: Context) -> str:
        answer = await ctx.elicit("Which seal?", Seal)
        return answer.data.seal if answer.action == "accept" else answer.action

    return mcp
