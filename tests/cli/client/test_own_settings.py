"""Commands of operators find the router and the admin token of their machine by its settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from framehold.config import Settings
from framehold_cli.client import own_settings
from framehold_core.errors import ConfigError
from framehold_fleet.config import FleetSettings
from framehold_router.config import RouterSettings

TOKEN = "an-admin-token-in-a-file"
KEYS = f"{'a' * 32},{'b' * 32}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of secrets as a platform mounts it."""
    for name, text in {"KEYS": KEYS, "ADMIN_TOKEN": f"{TOKEN}\n", "STORE_URL": "redis://in-a-file"}.items():
        (tmp_path / f"FRAMEHOLD_{name}").write_text(text)
        monkeypatch.delenv(f"FRAMEHOLD_{name}", raising=False)
    monkeypatch.setenv("FRAMEHOLD_SECRETS_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("kind", [Settings, RouterSettings])
def test_secrets_are_read_from_files(folder: Path, kind: Any) -> None:
    settings = kind()
    assert settings.keys == tuple(KEYS.split(","))
    assert settings.admin_token.get_secret_value() == TOKEN
    assert settings.store_url == "redis://in-a-file"


def test_several_folders_are_read(folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any) -> None:
    """As where one holds what was derived, and another one what was mounted."""
    second = tmp_path_factory.mktemp("second")
    (folder / "FRAMEHOLD_ADMIN_TOKEN").rename(second / "FRAMEHOLD_ADMIN_TOKEN")
    monkeypatch.setenv("FRAMEHOLD_SECRETS_DIR", f"{folder}:{second}")
    settings = RouterSettings()
    assert settings.admin_token is not None and settings.admin_token.get_secret_value() == TOKEN
    assert settings.keys == tuple(KEYS.split(","))
    monkeypatch.setenv("FRAMEHOLD_SECRETS_DIR", f"{folder}:/nowhere/at/all")
    with pytest.raises(ConfigError, match=r"/nowhere/at/all is no folder"):
        RouterSettings()


def test_a_variable_counts_more_than_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEHOLD_STORE_URL", "redis://in-a-variable")
    settings = Settings()
    assert (settings.store_url, settings.keys) == ("redis://in-a-variable", tuple(KEYS.split(",")))


def test_a_folder_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that starts without the secrets that it was promised would make keys of its own."""
    monkeypatch.setenv("FRAMEHOLD_SECRETS_DIR", "/nowhere/at/all")
    with pytest.raises(ConfigError, match=r"FRAMEHOLD_SECRETS_DIR is wrong: /nowhere/at/all is no folder"):
        Settings()


@pytest.mark.parametrize("kind", [Settings, RouterSettings])
def test_a_file_that_can_not_be_read_is_named(folder: Path, kind: Any) -> None:
    """As where a pod's group has no right to it. Root, as whom tests may run, can't read a link that leads nowhere."""
    (folder / "FRAMEHOLD_KEYS").unlink()
    (folder / "FRAMEHOLD_KEYS").symlink_to("gone")
    with pytest.raises(ConfigError, match=r"this process can't read FRAMEHOLD_KEYS in .*nothing was started"):
        kind()


def test_a_wrong_secret_in_a_file_is_not_shown(folder: Path) -> None:
    (folder / "FRAMEHOLD_KEYS").write_text("short-and-secret")
    with pytest.raises(ConfigError, match="FRAMEHOLD_KEYS is wrong") as refused:
        Settings()
    assert "short-and-secret" not in str(refused.value)


@pytest.mark.parametrize("kind", [FleetSettings, Settings, RouterSettings])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"keys": "short-secret"}, "keys is wrong: each key must have at least 32 bytes"),
        ({"admin_token": "short-secret"}, "admin_token is wrong: must have at least 16"),
        ({"max_body": -1}, "max_body is wrong: Input should be greater than 0"),
        ({"max_bodi": "short-secret"}, "max_bodi is no setting; nothing was started; did you mean 'max_body'?"),
        ({"zzz": 1, "_env_file": None}, "zzz is no setting"),
    ],
)
def test_a_wrong_setting_in_code_is_named_and_not_shown(kind: Any, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)) as refused:
        kind(**given)
    assert "nothing was started" in str(refused.value) and "short-secret" not in str(refused.value)


def test_a_wrong_variable_is_named_as_such_beside_settings_in_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEHOLD_MAX_BODY", "-1")
    monkeypatch.setenv("FRAMEHOLD_MAX_BODI", "is nobody's, and passed over")
    with pytest.raises(ConfigError, match=r"FRAMEHOLD_MAX_BODY is wrong: .*nothing was started"):
        Settings(token_ttl=60)
    assert Settings(max_body=5).max_body == 5


def test_the_router_of_this_machine_has_its_admin_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FRAMEHOLD_ADMIN_PORT", raising=False)
    assert own_settings.router() == "http://127.0.0.1:8080"
    monkeypatch.setenv("FRAMEHOLD_ADMIN_PORT", "8081")
    assert own_settings.router() == "http://127.0.0.1:8081"


def test_the_token_may_be_in_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The admin token, and without it the read token."""
    (folder / "FRAMEHOLD_READ_TOKEN").write_text("a-read-token-in-a-file\n")
    assert own_settings.token() == TOKEN
    (folder / "FRAMEHOLD_ADMIN_TOKEN").unlink()
    assert own_settings.token() == "a-read-token-in-a-file"
    monkeypatch.delenv("FRAMEHOLD_SECRETS_DIR")
    assert own_settings.token() is None


@pytest.mark.parametrize("name", ["ADMIN_TOKEN", "READ_TOKEN"])
def test_a_token_that_can_be_guessed_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """So is one that no header can carry. None is shown."""
    for text in ("too-short", "with a space in it", "\u00e4" * 20):
        monkeypatch.setenv(f"FRAMEHOLD_{name}", text)
        with pytest.raises(ConfigError, match=f"FRAMEHOLD_{name} is wrong: must have at least 16") as refused:
            RouterSettings()
        assert text not in str(refused.value)


def test_the_read_token_is_another_than_the_admin_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ADMIN_TOKEN", "READ_TOKEN"):
        monkeypatch.setenv(f"FRAMEHOLD_{name}", TOKEN)
    with pytest.raises(ConfigError, match="FRAMEHOLD_READ_TOKEN is wrong: must not be the admin token") as refused:
        RouterSettings()
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [*("foo", "10.0.0.7:8000", "ftp://h", "http://", "http://h:0", "http://h:99999", "http://h:port"), "http://h/mcp"],
)
def test_an_address_that_nobody_could_call_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """A node with it would start, and no router would send it a call."""
    monkeypatch.setenv("FRAMEHOLD_ADVERTISE_URL", address)
    with pytest.raises(ConfigError, match=r"ADVERTISE_URL is wrong: must be http://host:port.*; nothing was started$"):
        Settings()


@pytest.mark.parametrize("address", ["", "http://node_1:8000", "https://h", "http://[::1]:8000/"])
def test_an_address_that_can_be_called(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("FRAMEHOLD_ADVERTISE_URL", address)
    assert Settings().advertise_url == address
