"""Settings: the `FRAMEHOLD_*` environment variables that routers and nodes share, and how settings are read.

Each limit has a default, and the error of a request that exceeds it names the setting.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SecretsSettingsSource,
    SettingsConfigDict,
)

from framehold_core.errors import ConfigError
from framehold_core.writes import MAX_ATTEMPTS
from framehold_store.config import StoreConfig

KEY_BYTES = 32
"""The least length of a key, in bytes."""
TOKEN_CHARACTERS = 16
"""The least length of an admin token."""

MAX_SECONDS = 86_400 * 7
"""The longest time that a setting may be."""

_SECRETS_DIR = "FRAMEHOLD_SECRETS_DIR"

Listed = Annotated[tuple[str, ...], NoDecode]
"""Comma-separated in the environment."""


class AdminSettings(BaseSettings):
    """The settings that the commands of operators need, of a process on the same machine."""

    model_config = SettingsConfigDict(env_prefix="FRAMEHOLD_", extra="ignore", frozen=True)

    secrets_dir: str = ""
    """A folder with a file for each setting that is kept secret, named as its variable; or several, with `:` between
    them. A variable counts more than a file."""
    admin_port: int = Field(0, ge=0, le=65535)
    """The port on which `framehold router` serves its dashboard, its API and its metrics, and `framehold node` its
    metrics and its admin API. The port of clients then answers 404 to these paths. 0: one port serves all."""
    admin_token: SecretStr | None = None
    """The token for the actions drain, cancel, evict, pause and resume. If it is set, reads of the API need it too, or
    the read token."""
    read_token: SecretStr | None = None
    """A token that a router takes for reads of its API and its dashboard, and for no action."""

    def __init__(self, **given: Any) -> None:
        """Read the settings that are not `given` from the environment.

        Raises:
            ConfigError: a setting is malformed, or there is none of that name; pydantic-settings' own names begin with
                "_". The message names it by its environment variable, or as it was given.
        """
        fields = type(self).model_fields
        if unknown := next((name for name in given if name not in fields and name[0] != "_"), None):
            near = "".join(f"; did you mean {name!r}?" for name in get_close_matches(unknown, fields, 1))
            raise ConfigError(f"{unknown} is no setting; nothing was started{near}")
        try:
            super().__init__(**given)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            field, why = str(first["loc"][0]), first["msg"].removeprefix("Value error, ")
            name = field if field in given else f"FRAMEHOLD_{field.upper()}"
            raise ConfigError(f"{name} is wrong: {why}; nothing was started") from None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Where settings come from: arguments, then variables, then the files of FRAMEHOLD_SECRETS_DIR."""
        folders = os.environ.get(_SECRETS_DIR, "").split(os.pathsep)
        files = (SecretsSettingsSource(settings_cls, secrets_dir=_folder(folder)) for folder in folders if folder)
        return (init_settings, env_settings, *files)

    @field_validator("admin_token", "read_token")
    @classmethod
    def _hard_to_guess(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None or not value.get_secret_value():
            return None
        text = value.get_secret_value()
        if len(text) < TOKEN_CHARACTERS or not text.isascii() or not text.isprintable() or " " in text:
            raise ValueError(
                f"must have at least {TOKEN_CHARACTERS} printable ASCII characters and no space; make one with: "
                "framehold keys new"
            )
        return value

    @field_validator("read_token")
    @classmethod
    def _reads_only(cls, value: SecretStr | None, found: ValidationInfo) -> SecretStr | None:
        if value is not None and value == found.data.get("admin_token"):
            raise ValueError(
                "must not be the admin token, since who reads could act; make one with: framehold keys new"
            )
        return value


class FleetSettings(AdminSettings):
    """The settings that routers and nodes of a fleet share. Field `x` is read from `FRAMEHOLD_X`; times are in seconds,
    sizes in bytes."""

    store_url: str | None = None
    namespace: str = "default"
    keys: Listed = ()
    fleet_ca: str = ""
    """The file of the authority that signs for nodes whose address is `https://host:port`; without it those of this
    machine are believed."""
    max_body: int = Field(4 * 1024 * 1024, gt=0)
    route_headers: bool = False
    sagas: bool = False
    """Whether `tools/callSaga` and `tools/resumeSaga` call tools. A rule of a gateway for `tools/call` alone does not
    hold for them."""
    allowed_hosts: Listed = ()
    """The names that `Host` may have. Pages answer to local names and to addresses besides, and ignore ports."""
    log_level: str = "info"
    log_format: Literal["text", "json"] = "text"
    """A line for people, or a JSON object for machines."""
    metrics: bool = True
    """Whether metrics are counted, and served at `/metrics`."""
    max_attempts: int = Field(MAX_ATTEMPTS, gt=0)
    """How many processes may end in one round of a call before the call is stuck: no node enters its handler again."""
    max_value: int = Field(1024 * 1024, gt=0)
    """The largest value in a journal: an answer, or a result of `once`."""
    max_journal: int = Field(4 * 1024 * 1024, gt=0)
    """The largest journal of one call: once it has so many bytes, the call can't ask or run anything more. What is
    under way then may still be added (`most_written`)."""
    playground: Literal["off", "call", "kill"] = "off"
    """Whether the dashboard has a page that calls tools (`call`), and may also kill the node of a call (`kill`). A node
    is killed only if it has `kill` too."""

    @field_validator("keys", "allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return listed(value)

    @field_validator("keys")
    @classmethod
    def _long_enough(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(len(key.encode()) < KEY_BYTES for key in value):
            # The value itself stays out of the message: it is a secret.
            raise ValueError(f"each key must have at least {KEY_BYTES} bytes; make one with: framehold keys new")
        if len(set(value)) < len(value):
            raise ValueError("a key is listed twice; leave each in once")
        return value

    @field_validator("log_level")
    @classmethod
    def _names_a_level(cls, value: str) -> str:
        if value.lower() not in ("debug", "info", "warning", "error", "critical"):
            raise ValueError("must be debug, info, warning, error or critical")
        return value.lower()

    def secrets(self) -> tuple[bytes, ...]:
        """The keys as bytes; the first seals, all open."""
        return tuple(key.encode() for key in self.keys)

    @property
    def most_written(self) -> int:
        """Bytes of values that one journal may have, with answers and results that were under way when it was full."""
        return 2 * (self.max_journal + self.max_value)

    def store(self) -> StoreConfig:
        """The settings of the store. The stored form of a journal is longer than its values, by a third at most, and by
        some bytes an entry."""
        return StoreConfig(self.store_url, self.namespace, max_journal=self.most_written * 3 // 2)


def _folder(path: str) -> str:
    if not os.path.isdir(path):
        raise ConfigError(f"{_SECRETS_DIR} is wrong: {path} is no folder; nothing was started; mount it, or unset it")
    names = [name for name in sorted(os.listdir(path)) if name.startswith("FRAMEHOLD_")]
    if closed := ", ".join(name for name in names if not os.access(os.path.join(path, name), os.R_OK)):
        raise ConfigError(
            f"{_SECRETS_DIR} is wrong: this process can't read {closed} in {path}; nothing was started; give its user "
            "or its group the right to (in a pod: fsGroup)"
        )
    return path


Chosen = TypeVar("Chosen", bound=AdminSettings)


def load(kind: type[Chosen], **overrides: Any) -> Chosen:
    """Read settings from the environment. `overrides` that are not None replace the variables, also in `os.environ`, so
    that later readers see them too.

    Raises:
        ConfigError: a setting is malformed; the message names it by its environment variable.
    """
    # The module of a server may read the settings itself when it is imported: it must see the same values.
    os.environ.update(
        {f"FRAMEHOLD_{name.upper()}": str(value) for name, value in overrides.items() if value is not None}
    )
    return kind()


def listed(value: Any) -> Any:
    """A comma-separated text as a tuple, anything else as it is."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value
