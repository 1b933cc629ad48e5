"""The bundled store: one user with the rights that docs/operating.md lists, and no password where it might be read."""

from __future__ import annotations

import base64
import hashlib
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.helm.chart.render import render
from tests.kit.answering import expected
from tests.kit.fleet import converse, fleet
from tests.kit.redis_server import RedisServer, running
from tests.store.rights import RIGHTS

pytestmark = [pytest.mark.anyio, pytest.mark.chart]

MORE = {"+info", "+memory|usage"}
"""What the chart's user may beside the rule: nodes and routers know how full the store is, and a value that is far too
large is not read."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


class Bundled(RedisServer):
    """A server with the configuration that the chart renders, but for its folder, its port and its address."""

    def __init__(self, folder: Path) -> None:
        made = render()
        data = made.one("Secret", "fleet-framehold-store")["data"]
        self.secret = {key: base64.b64decode(value).decode() for key, value in data.items()}
        self.pod: dict[str, Any] = made.one("StatefulSet", "fleet-framehold-store")["spec"]["template"]["spec"]
        config = folder / "valkey.conf"
        here = {"bind * -::*": "bind 127.0.0.1", "dir /data": f"dir {folder}"}
        lines = [here.get(line, line) for line in self.secret["valkey.conf"].splitlines()]
        config.write_text("\n".join(lines))
        super().__init__(appendonly=True, options=("--include", str(config)))

    @property
    def url(self) -> str:
        """As the Secret has it, but for where it is."""
        return self.secret["url"].replace("fleet-framehold-store:6379", f"127.0.0.1:{self.port}")

    def client(self) -> redis.Redis:
        """As the fleet's user."""
        return redis.Redis.from_url(self.url, protocol=2)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bundled]:
    with running(Bundled(tmp_path_factory.mktemp("store"))) as started:
        yield started


def test_its_user_has_the_rights_that_the_guide_lists(store: Bundled) -> None:
    """The rule is written once for people: the chart has the same one."""
    (line,) = [line for line in store.secret["valkey.conf"].splitlines() if line.startswith("user framehold ")]
    _, _, on, password, *rights = line.split()
    assert (on, password[0]) == ("on", "#")
    assert set(rights) == {*RIGHTS, *MORE} and len(rights) == len(set(rights))


def test_its_password_is_in_one_file_and_on_no_command_line(store: Bundled) -> None:
    """The server has its hash, and the pod has no variable of a Secret."""
    password = store.secret["password"]
    assert f"#{hashlib.sha256(password.encode()).hexdigest()} " in store.secret["valkey.conf"]
    assert password not in store.secret["valkey.conf"]
    (container,) = store.pod["containers"]
    assert "secretKeyRef" not in str(container)
    assert "$(cat /etc/valkey/password)" in container["readinessProbe"]["exec"]["command"][-1]
    (config,) = [each["secret"] for each in store.pod["volumes"] if "secret" in each]
    assert {item["path"] for item in config["items"]} == {"valkey.conf", "password"}


async def test_a_fleet_works_with_it(store: Bundled, tmp_path: Path) -> None:
    """Three rounds of a call over a node and a router that have its URL: no right is missing."""
    async with fleet(tmp_path, store, "node-1") as made:
        router = await made.add_router()
        assert (await converse([router.url], ["a"])).said == {"a": expected("a")}
        overview = await router.overview()
        assert [line for line in made.complaints() if re.search("(?i)no.?perm", line)] == []
    assert overview["store_used"] > 0 and overview["store_limit"] == 256 << 20


@pytest.mark.parametrize(
    "command",
    ["FLUSHALL", "FLUSHDB", "CONFIG GET *", "CONFIG SET dir /", "KEYS *", "SHUTDOWN", "SAVE", "ACL LIST",
     "MONITOR", "REPLICAOF no one", "MODULE LIST", "EVAL return 0", "SCRIPT FLUSH", "GET other", "CLIENT KILL ID 1"],
)  # fmt: skip
def test_its_user_may_do_nothing_else(store: Bundled, command: str) -> None:
    """Neither by another command nor on other keys."""
    with store.client() as client, pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*command.split())


@pytest.mark.parametrize(
    "words", [(), ("AUTH guessed",), ("AUTH framehold guessed",), ("AUTH {}",), ("AUTH default {}",)]
)
def test_nobody_else_gets_in(store: Bundled, words: tuple[str, ...]) -> None:
    """The user that a server has by itself is off, even with the password of the fleet's."""
    lines = [word.format(store.secret["password"]) for word in (*words, "PING")]
    with socket.create_connection(("127.0.0.1", store.port), timeout=10) as wire, wire.makefile() as replies:
        wire.sendall("".join(f"{line}\r\n" for line in lines).encode())
        assert [replies.readline()[:7] in ("-NOAUTH", "-WRONGP") for _ in lines] == [True] * len(lines)


def probed(store: Bundled, folder: Path, password: str) -> int:
    """What its readiness probe says; `redis-cli` stands in for Valkey's."""
    (folder / "password").write_text(password)
    (folder / "valkey-cli").write_text(f'#!/bin/sh\nexec redis-cli -p {store.port} "$@"\n')
    (folder / "valkey-cli").chmod(0o755)
    shell, option, script = store.pod["containers"][0]["readinessProbe"]["exec"]["command"]
    command = [shell, option, script.replace("/etc/valkey/", f"{folder}/")]
    return subprocess.run(command, env={"PATH": f"{folder}:/usr/bin:/bin"}, timeout=30, check=False).returncode


def test_its_probe_is_ready_when_its_user_gets_an_answer(store: Bundled, tmp_path: Path) -> None:
    assert probed(store, tmp_path, store.secret["password"]) == 0
    assert probed(store, tmp_path, "another") == 1
