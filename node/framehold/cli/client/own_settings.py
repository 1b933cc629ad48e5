"""What the settings of this machine say to the commands of operators, which run beside a router."""

from __future__ import annotations

from framehold_router.config import AdminSettings, read

_PORT = 8080


def router() -> str:
    """The address of a router on this machine: its admin port if it has one (FRAMEHOLD_ADMIN_PORT).

    Raises:
        ConfigError: a setting is malformed.
    """
    return f"http://127.0.0.1:{read(AdminSettings).admin_port or _PORT}"


def admin_token() -> str | None:
    """The admin token of this machine's settings, which may be in a file (FRAMEHOLD_SECRETS_DIR); None if there is
    none.

    Raises:
        ConfigError: a setting is malformed.
    """
    token = read(AdminSettings).admin_token
    return None if token is None else token.get_secret_value()
