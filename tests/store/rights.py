"""The rights of Framehold's user, as docs/operating.md lists them."""

import re
from pathlib import Path

from tests.kit.redis_server import RedisServer

_GUIDE = (Path(__file__).parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")
(_RULE,) = re.findall(r"ACL SETUSER framehold on >PASSWORD ([^`]+)", _GUIDE)
RIGHTS: list[str] = _RULE.split()
"""Keys, channels and commands."""


def restrict(server: RedisServer, *rights: str) -> None:
    """Give the server a user `framehold` with these rights and no others."""
    with server.client() as admin:
        admin.execute_command("ACL", "SETUSER", "framehold", "reset", "on", ">pw", *rights)


def as_user(url: str) -> str:
    """The URL for that user."""
    return url.replace("://", "://framehold:pw@")
