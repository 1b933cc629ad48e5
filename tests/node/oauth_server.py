"""A server for fleets that only those may use who are authorized, by the SDK's own authorization server. What that
knows is kept in a folder that all nodes share, as a deployment's would be kept in a database."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path
from typing import Any, TypeVar

from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import Context
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import BaseModel

import framehold

Kept = TypeVar("Kept", bound=BaseModel)
SCOPE = "ask"


class Records:
    """Records by kind and name, a file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file(self, kind: type[BaseModel], name: str) -> Path:
        return self._folder / f"{kind.__name__}-{name.encode().hex()}"

    def keep(self, name: str, record: BaseModel) -> None:
        """Keep a record, instead of any of its kind and name. Whoever reads meanwhile has the old one or the new."""
        file = self._file(type(record), name)
        fresh = file.with_name(f"{file.name}-{secrets.token_hex(4)}")
        fresh.write_text(record.model_dump_json())
        fresh.rename(file)

    def find(self, kind: type[Kept], name: str) -> Kept | None:
        file = self._file(kind, name)
        return kind.model_validate_json(file.read_text()) if file.exists() else None

    def drop(self, kind: type[BaseModel], name: str) -> None:
        self._file(kind, name).unlink(missing_ok=True)


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Authorizes each client that asks, as the user `ann`."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._records.find(OAuthClientInformationFull, client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self._records.keep(client_info.client_id, client_info)

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        assert client.client_id is not None
        code = AuthorizationCode(
            code=secrets.token_hex(20),
            scopes=params.scopes or [SCOPE],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            subject="ann",
            **params.model_dump(include={"code_challenge", "redirect_uri", "redirect_uri_provided_explicitly"}),
        )
        self._records.keep(code.code, code)
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self._records.find(AuthorizationCode, authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        self._records.drop(AuthorizationCode, authorization_code.code)
        token, code = secrets.token_hex(20), authorization_code
        access = AccessToken(token=token, client_id=code.client_id, scopes=code.scopes, subject=code.subject)
        self._records.keep(token, access)
        return OAuthToken(access_token=token, token_type="Bearer", expires_in=600, scope=" ".join(code.scopes))

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return None

    async def exchange_refresh_token(self, *_: Any) -> OAuthToken:
        raise AssertionError("no refresh token was ever issued")

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self._records.find(AccessToken, token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self._records.drop(AccessToken, token.token)


def guarded(root: str, records: Records) -> MCPServer[Any]:
    """The server, for clients that reach it at `root`."""
    # From texts: a URL without a path keeps its form, by which clients compare it.
    auth = AuthSettings.model_validate(
        {
            "issuer_url": root,
            "resource_server_url": f"{root}/mcp",
            "required_scopes": [SCOPE],
            "client_registration_options": ClientRegistrationOptions(
                enabled=True, valid_scopes=[SCOPE], default_scopes=[SCOPE]
            ),
            "validate_token_resource": False,
        }
    )
    server: MCPServer[Any] = MCPServer("guarded", auth_server_provider=Provider(records), auth=auth)

    class Word(BaseModel):
        word: str

    def user() -> str:
        token = get_access_token()
        return str(token.subject) if token else "nobody"

    @server.tool()
    @framehold.reentrant
    async def who(ctx: Context) -> str:
        """Ask twice, and say who answered."""
        for question in ("One?", "Two?"):
            await ctx.elicit(f"{user()}, {question}", Word)
        return user()

    return server


if "OAUTH_FOLDER" in os.environ:
    mcp = guarded(os.environ["OAUTH_ROOT"], Records(Path(os.environ["OAUTH_FOLDER"])))
