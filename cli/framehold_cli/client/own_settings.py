"""What the settings of this machine say to the commands of operators, which run beside a router."""

from __future__ import annotations

from framehold_fleet.config import AdminSettings

_PORT = 8080


def router() -> str:
    """The address of a router on this machine: its admin port if it has one (FRAMEHOLD_ADMIN_PORT).

    Raises:
        ConfigError: a setting is malformed.
    """
    return f"http://127.0.0.1:{AdminSettings().admin_port or _PORT}"


def token() -> str | None:
    """The admin token of this machine's settings, or else the read token; None if there is neither. Both may be in
    files (FRAMEHOLD_SECRETS_DIR).

    Raises:
        ConfigError: a setting is malformed.
    """
    settings = AdminSettings()
    token = settings.admin_token or settings.read_token
    return None if token is None else token.get_secret_value()
