"""The doctor: a verdict and what to do for each thing that may be wrong, and never a secret."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from framehold import config
from framehold_cli.checks import environment, store_health
from framehold_cli.checks.findings import Finding
from framehold_cli.checks.store_health import ServerFacts
from framehold_cli.checks.store_trouble import trouble
from framehold_cli.diagnose import doctor, fleet_health
from framehold_cli.local.ports import free as free_port
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.router_keys import text_of
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.node_stats import Stats
from framehold_store import StoreConfig
from tests.cli.fake_router import NODE, OPEN, OVERVIEW, FakeRouter, Operator, problem
from tests.cli.local.test_up import framehold
from tests.kit.leases import lease
from tests.kit.nodes import KEY
from tests.kit.redis_server import RedisServer, running
from tests.store.answers import ANSWERS, error_of

pytestmark = pytest.mark.anyio


TOKEN = "0123456789abcdef"
OK, BUSY = b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 503 Service Unavailable\r\n\r\n"
NOT_FOUND, MISDIRECTED = b"HTTP/1.1 404 Not Found\r\n\r\n", b"HTTP/1.1 421 Misdirected Request\r\n\r\n"


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with running(RedisServer()) as server:
        yield server


@pytest.mark.parametrize(
    ("check", "info", "verdict"),
    [
        (store_health.eviction, {"maxmemory_policy": "noeviction"}, "ok"),
        (store_health.eviction, {"maxmemory_policy": "allkeys-lru", "maxmemory": 0}, "warn"),
        (store_health.eviction, {"maxmemory_policy": "allkeys-lru", "maxmemory": 1 << 30}, "fail"),
        (store_health.eviction, {}, "warn"),
        (store_health.persistence, {"aof_enabled": 1}, "ok"),
        (store_health.persistence, {"aof_enabled": 0}, "warn"),
        (store_health.persistence, {"aof_enabled": 1, "aof_last_write_status": "err"}, "fail"),
        (store_health.persistence, {"aof_enabled": 0, "rdb_last_bgsave_status": "err"}, "fail"),
        (store_health.persistence, {"aof_enabled": 1, "rdb_last_bgsave_status": "err"}, "ok"),
        (store_health.persistence, {}, "warn"),
    ],
)
def test_what_the_store_says_of_itself(check: Any, info: dict[str, Any], verdict: str) -> None:
    """A store that may evict leases loses calls. So does one whose calls no restart survives."""
    assert_is(check(ServerFacts(info)), verdict)


@pytest.mark.parametrize(("packed", "verdicts"), [(None, []), (64, ["warn"]), (4096, ["ok"]), (8192, ["ok"])])
def test_how_the_store_packs_what_has_ended(packed: int | None, verdicts: list[str]) -> None:
    """Redis's default doubles the memory of a finished call. A store that may not say gives no finding."""
    assert [finding.verdict for finding in store_health.hashes(ServerFacts(packed=packed))] == verdicts


async def test_a_real_store_says_how_it_packs(redis: RedisServer) -> None:
    """Both names of the setting are read. A user without the right to read it gets None."""
    result = await store_health._read_facts(StoreConfig(redis.url))
    assert result.packed == 64
    with redis.client() as admin:
        admin.config_set("hash-max-listpack-value", 4096)
        assert (await store_health._read_facts(StoreConfig(redis.url))).packed == 4096
        admin.config_set("hash-max-listpack-value", 64)
        admin.execute_command("ACL", "SETUSER", "poor", "on", ">pw", "~*", "+ping", "+time", "+info")
        assert (await store_health._read_facts(StoreConfig(redis.url.replace("://", "://poor:pw@")))).packed is None
        admin.execute_command("ACL", "DELUSER", "poor")


@pytest.mark.parametrize(
    ("info", "verdict", "says"),
    [
        ({"redis_version": "7.0.15"}, "ok", "redis 7.0.15"),
        ({"redis_version": "6.0.16"}, "fail", "redis 6.0.16"),
        ({"redis_version": "7.2.4", "valkey_version": "8.1.0"}, "ok", "valkey 8.1.0"),
        ({}, "warn", "doesn't say its version"),
    ],
)
def test_the_stores_release(info: dict[str, Any], verdict: str, says: str) -> None:
    finding = store_health.version(ServerFacts(info), "redis://x:1")
    assert_is(finding, verdict)
    assert says in finding.says


@pytest.mark.parametrize(("skew", "verdict"), [(19.0, "ok"), (-19.0, "ok"), (20.0, "warn"), (-20.0, "warn")])
def test_the_stores_clock(skew: float, verdict: str) -> None:
    finding = store_health.skew(ServerFacts(skew=skew))
    assert_is(finding, verdict)
    assert ("ahead of" if skew > 0 else "behind") in finding.says


@pytest.mark.parametrize(("ping", "verdict"), [(0.3, "ok"), (40.0, "warn")])
def test_the_way_to_the_store(ping: float, verdict: str) -> None:
    assert_is(store_health.latency(ServerFacts(ping=ping)), verdict)


@pytest.mark.parametrize(("trips", "verdict"), [((0.29, 0.1), "ok"), ((0.1, 0.31), "warn"), ((0.5, None), "fail")])
def test_the_nodes_way_to_the_store(trips: tuple[float | None, ...], verdict: str) -> None:
    """By what their leases say; the worst counts."""
    stats = [Stats(round_trip=trip, longest_round_trip=0.5).dump() for trip in trips]
    [finding] = store_health.round_trips([lease("n", stats=text) for text in stats])
    assert_is(finding, verdict)
    assert f"heartbeats take {max(trip or 0 for trip in trips) * 1000:.0f} of 500 ms at the store (n)" in finding.says
    assert store_health.round_trips([lease("n")]) == []


def test_python_and_the_sdk() -> None:
    """An untested release is a warning. A missing SDK is a failure."""
    from framehold.hosts.attach import TESTED

    assert_is(doctor.python((3, 11, 7)), "ok")
    assert_is(doctor.python((3, 19, 0)), "warn")
    assert_is(doctor.sdk(TESTED), "ok")
    assert_is(doctor.sdk("2.99.0"), "warn")
    assert_is(doctor.sdk(""), "fail")


@pytest.mark.parametrize(
    ("settings", "verdict"),
    [
        ({}, "warn"),
        ({"store_url": "redis://x"}, "fail"),
        ({"keys": (KEY,)}, "ok"),
        ({"keys": tuple(f"{number:032}" for number in range(4))}, "warn"),
    ],
)
def test_keys(settings: dict[str, Any], verdict: str) -> None:
    finding = doctor.keys(config.Settings(**settings))
    assert_is(finding, verdict)
    assert KEY not in finding.says


def test_the_shell_of_a_router(operator: Operator, router: FakeRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not have the keys of the fleet, and no node is there."""
    monkeypatch.setenv("FRAMEHOLD_STORE_URL", "redis://127.0.0.1:1")
    _, found = checked(operator)
    assert found["keys"]["verdict"] == "fail" and {"node name", "advertise url"} < found.keys()
    monkeypatch.setenv("FRAMEHOLD_ROUTER_KEYS", text_of([KEY.encode()]))
    _, found = checked(operator)
    assert found["keys"]["verdict"] == "ok" and found["keys"]["says"].startswith("1 of a router")
    assert not {"node name", "advertise url"} & found.keys()


def test_one_key_is_called_one() -> None:
    """The finding does not show the length of the key."""
    assert doctor.keys(config.Settings(keys=(KEY,))).says == "1 key, long enough (32 bytes or more)"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("FRAMEHOLD_KEY", "did you mean FRAMEHOLD_KEYS?"),
        ("framehold_lease_tll", "did you mean FRAMEHOLD_LEASE_TTL?"),
        ("FRAMEHOLD_UPSTREAM_TIMOUT", "did you mean FRAMEHOLD_UPSTREAM_TIMEOUT?"),
        ("FRAMEHOLD_ZZZ", "unset it, or see docs/settings.md for the names of all settings"),
    ],
)
def test_a_name_that_nothing_reads(name: str, near: str) -> None:
    """An unknown FRAMEHOLD_ variable is most often a typing mistake."""
    [finding] = environment.unknown([name, *environment.known(), "PATH", "framehold_keys"])
    assert_is(finding, "warn")
    assert name in finding.says and finding.do == near


async def test_the_address_that_a_node_gives_others() -> None:
    """Nobody can connect to a wildcard address. An address where nothing listens may be a mistake."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        here = f"http://127.0.0.1:{listening.getsockname()[1]}"
        cases = {
            "": "warn",
            "http://0.0.0.0:8000": "fail",
            "http://[::]:8000": "fail",
            here: "warn",
            f"http://127.0.0.1:{free_port()}": "warn",
        }
        for url, verdict in cases.items():
            assert_is(await doctor.advertised(config.Settings(store_url="redis://x", advertise_url=url)), verdict)
    assert_is(await doctor.advertised(config.Settings()), "ok")


@pytest.mark.parametrize(
    ("nodes", "ready", "verdict", "says"),
    [
        (OK + b'{"nodes": []}', OK, "ok", "one is ready"),
        (OK + b'{"nodes": []}', BUSY, "warn", "not ready"),
        (b'HTTP/1.1 401 Unauthorized\r\n\r\n{"error": "a token is missing"}', OK, "ok", "one is ready"),
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n{}", OK, "warn", "something else"),
        (b'HTTP/1.1 403 Forbidden\r\n\r\n{"error": "no token is set"}', OK, "ok", "one is ready"),
        (MISDIRECTED + b'{"error": "another Host"}', MISDIRECTED, "fail", "does not answer to this name"),
        (OK + b'{"nodes": 1}', OK, "warn", "something else"),
        (OK + b"fine", OK, "warn", "something else"),
        (NOT_FOUND, b'HTTP/1.1 403 Forbidden\r\n\r\n{"error": "only the fleet"}', "warn", "is a node"),
        (NOT_FOUND, b"HTTP/1.1 403 Forbidden\r\n\r\n{}", "warn", "something else"),
        (NOT_FOUND, OK, "warn", "something else"),
        (b"220 smtp\r\n", b"220 smtp\r\n", "warn", "something else"),
        (b"", b"", "fail", "takes connections, and answers nothing"),
    ],
)
async def test_who_is_at_the_routers_port(nodes: bytes, ready: bytes, verdict: str, says: str) -> None:
    """A router is recognized by its list of nodes. A ready /readyz is not enough."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # The check whether anything listens sends nothing, and closes the connection.
            asked = await reader.readline()
            writer.write(nodes if asked.startswith(b"GET /api/v1/nodes ") else ready)
        except OSError:
            pass
        finally:
            writer.close()
            ended.release()

    ended = asyncio.Semaphore(0)
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        where = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finding = await doctor.router(where, there=await doctor.access_of(where) is not None)
        # The doctor opens two connections.
        await ended.acquire()
        await ended.acquire()
    assert_is(finding, verdict)
    assert says in finding.says


async def test_a_free_port() -> None:
    """A free port of this machine is fine. An address elsewhere without an answer fails, and so does text that is no
    address."""
    [finding] = await doctor.fleet(f"http://127.0.0.1:{free_port()}", None)
    assert_is(finding, "ok")
    assert "free" in finding.says
    for url in ("http://router.invalid:8080", "http://[x"):
        [finding] = await doctor.fleet(url, None)
        assert_is(finding, "fail")


HELD = {"handler": 'tool "book"', "why": "'lock' in the closure of server.book is an object of asyncio.locks.Lock"}


def checked(operator: Operator, *words: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Run the doctor. Return the exit code, and the findings by their names."""
    result = operator("doctor", "-o", "json", *words)
    return result.code, {one["check"]: one for one in json.loads(result.out)}


def test_a_fleet_in_health(operator: Operator) -> None:
    """A healthy fleet has nothing to correct except its missing admin token."""
    code, found = checked(operator)
    assert code == 0 and found["router"]["says"].startswith("the one at")
    assert {found[check]["verdict"] for check in ("fleet", "versions", "calls")} == {"ok"}
    assert found["versions"]["says"] == "0.1.0: the router, n1"


@pytest.mark.parametrize(
    ("what", "text", "check", "verdict", "says"),
    [
        ("overview", {**OVERVIEW, "problems": [problem("harm")]}, "fleet", "fail", "n1 doesn't answer at http://127"),
        ("overview", {**OVERVIEW, "problems": [problem("risk")]}, "fleet", "warn", "n1 doesn't answer at http://127"),
        ("nodes", {"nodes": [{**NODE, "version": "0.2.0"}]}, "versions", "warn", "0.1.0: the router; 0.2.0: n1"),
        ("overview", {**OVERVIEW, "open": OPEN}, "calls", "ok", "orphaned: 2 (looked up 3s ago): their nodes are gone"),
        ("nodes", {"nodes": [NODE]}, "admin token", "warn", "nobody may drain, cancel or evict"),
        ("nodes", {"nodes": [NODE]}, "code", "warn", "no node keeps the code of its handlers"),
        ("nodes", {"nodes": [{**NODE, "not_kept": []}]}, "code", "ok", "go on with the code that they began with"),
        ("nodes", {"nodes": [{**NODE, "not_kept": [HELD]}]}, "code", "warn", 'that of tool "book" is not kept'),
    ],
)
def test_what_may_be_wrong_with_a_fleet(
    what: str, text: Any, check: str, verdict: str, says: str, operator: Operator, router: FakeRouter
) -> None:
    router.say(what, text)
    code, found = checked(operator)
    finding = Finding(**found[check])  # type: ignore[arg-type]  # texts only
    assert_is(finding, verdict)
    assert says in finding.says and code == int(verdict == "fail")


def test_a_router_that_wants_a_token(operator: Operator, router: FakeRouter) -> None:
    """A router that refuses the token is still a router. Without the token its nodes stay unknown. No token is
    shown."""
    refusal = {"error": "the admin token is missing or wrong"}
    for what in ("nodes", "overview"):
        router.say(what, refusal, status=401)
    code, found = checked(operator)
    assert code == 1 and "none was given" in found["admin token"]["says"] and "fleet" not in found
    code, found = checked(operator, "--token", "f" * 16)
    assert code == 1 and "does not prove that it has this one" in found["admin token"]["says"]
    assert "f" * 16 not in json.dumps(found)
    code, found = checked(operator, "--token", TOKEN)
    assert code == 1 and "admin token" not in found, "it has proved that it has the token: its own words say the rest"
    assert refusal["error"] in found["fleet"]["says"]
    router.says["GET nodes"] = [(401, refusal), (200, {"nodes": [NODE]})]
    router.say("overview", OVERVIEW)
    code, found = checked(operator, "--token", TOKEN)
    assert (code, found["admin token"]["verdict"], found["fleet"]["verdict"]) == (0, "ok", "ok")


@pytest.mark.parametrize("status", [403, 421])
def test_a_router_that_tells_nobody(operator: Operator, router: FakeRouter, status: int) -> None:
    """It has no token, or another name: its own words say what to do."""
    for what in ("nodes", "overview"):
        router.say(what, {"error": "set FRAMEHOLD_THIS"}, status=status)
    code, found = checked(operator)
    assert code == 1 and found["fleet"]["says"] == f"{status}: set FRAMEHOLD_THIS"


def test_versions_that_nobody_says() -> None:
    assert fleet_health.versions("", []) == []


@pytest.mark.parametrize(
    ("info", "verdicts", "says"),
    [
        ({"used_memory": 5 << 20, "maxmemory": 0}, ["ok"], "no limit"),
        ({"used_memory": 5 << 20, "maxmemory": 10 << 20}, ["ok"], "50% of its limit of 10.0 MiB"),
        ({"used_memory": 8 << 20, "maxmemory": 10 << 20}, ["warn"], "nearly full"),
        ({"used_memory": 11 << 20, "maxmemory": 10 << 20}, ["fail"], "no node can write to it"),
        ({}, ["warn"], "doesn't say how full it is"),
    ],
)
def test_how_full_the_store_is(info: dict[str, Any], verdicts: list[str], says: str) -> None:
    """A full store is told from a store that is well, and nobody is told to restart nodes."""
    findings = store_health.room(ServerFacts(info))
    assert [finding.verdict for finding in findings] == verdicts
    assert all(says in finding.says for finding in findings)
    assert not any("start one" in finding.do for finding in findings)


def test_whose_environment_is_checked(operator: Operator) -> None:
    """A shell without settings beside a running fleet: the store that is checked is not that of the fleet."""
    found = checked(operator)[1]
    assert "are those of this shell" in found["scope"]["says"] and "http://127.0.0.1" in found["scope"]["says"]
    assert "a running fleet's store is not checked from here" in found["store"]["says"]
    assert "in this shell" in found["keys"]["says"]


def test_against_a_real_store(redis: RedisServer) -> None:
    """Every check of a real store gives a verdict, and no secret is shown."""
    result = framehold("doctor", "-o", "json", FRAMEHOLD_STORE_URL=redis.url, FRAMEHOLD_KEYS=KEY)
    found = {one["check"]: one for one in json.loads(result.stdout)}
    verdicts = {check: one["verdict"] for check, one in found.items()}
    assert verdicts | {"router": ""} == {
        "python": "ok",
        "mcp": "ok",
        "keys": "ok",
        "node name": "ok",
        "store": "ok",
        "store latency": "ok",
        "store clock": "ok",
        "store eviction": "ok",
        "store persistence": "warn",
        "store memory": "ok",
        "store hashes": "warn",
        "scope": "ok",
        "nodes": "warn",
        "advertise url": "warn",
        "router": "",
    }
    assert result.returncode == 0 and KEY not in result.stdout
    assert all(bool(one["do"]) == (one["verdict"] != "ok") for one in found.values())


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://127.0.0.1:1", "redis://127.0.0.1:1 doesn't answer: the connection was refused"),
        ("redis://surely.invalid:1", "redis://surely.invalid:1 has a host name that nobody knows"),
        ("unix:///nowhere/redis.sock", "doesn't answer: there is no such socket"),
        (
            "rediss://127.0.0.1:1?ssl_ca_certs=/nowhere/ca.pem",
            "a certificate or a key that its address names is not on",
        ),
        ("rediss://127.0.0.1:1?ssl_certfile=/nowhere/a.pem", "a certificate or a key that its address names is not on"),
    ],
)
async def test_a_store_that_is_not_there(url: str, says: str) -> None:
    """A wrong host, a wrong port and a wrong path have different messages."""
    [finding] = await store_health.check(StoreConfig(url), LeaseSeal(Trust(()), "default"))
    assert_is(finding, "fail")
    assert says in finding.says


@pytest.mark.parametrize(("reply", "do"), ANSWERS.items())
def test_a_store_that_answers_with_an_error(reply: str, do: str) -> None:
    found = trouble(error_of(reply), StoreConfig("redis://127.0.0.1:1"))
    assert found.says.startswith(("answers", "refuses the password")) and do in found.do
    assert not found.do.startswith("start it") and "swordfish" not in found.says


async def test_a_wrong_password(redis: RedisServer) -> None:
    """A wrong password, and a missing one, are failures. No password is shown."""
    place = redis.url.partition("://")[2].rpartition("@")[2]
    urls = [f"redis://{user}:hunter2@{place}" for user in ("", "someone")]
    client = Redis.from_url(redis.url)
    try:
        await client.config_set("requirepass", "swordfish")
        urls.append(redis.url)
        for url in urls:
            [finding] = await store_health.check(StoreConfig(url), LeaseSeal(Trust(()), "default"))
            assert_is(finding, "fail")
            assert "refuses the password (or the user)" in finding.says
            assert "hunter2" not in finding.says + finding.do
    finally:
        await client.config_set("requirepass", "")
        await client.aclose()


def test_a_stand_in_is_not_advertised() -> None:
    """The message doesn't recommend embedded://, which is only for trials of the store."""
    result = framehold("doctor", FRAMEHOLD_STORE_URL="redsi://x").stdout
    assert "rediss:// or unix://" in result and "embedded" not in result


def test_what_failed_is_the_exit_code() -> None:
    """A store that doesn't answer, or settings that can't be read: exit code 1 and what to do, without a password or
    key."""
    result = framehold("doctor", FRAMEHOLD_STORE_URL="redis://user:hunter2@127.0.0.1:1", FRAMEHOLD_KEYS=KEY)
    assert result.returncode == 1 and result.stderr == ""
    assert "redis://127.0.0.1:1 doesn't answer" in result.stdout and "-> start it" in result.stdout
    assert "hunter2" not in result.stdout and KEY not in result.stdout
    result = framehold("doctor", FRAMEHOLD_KEYS="too-short-a-secret")
    assert result.returncode == 1 and "32 bytes" in result.stdout and "too-short" not in result.stdout


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LEASE_TTL", "abc"),
        ("ADVERTISE_URL", "127.0.0.1:8000"),
        ("ADMIN_PORT", "abc"),
        ("ADMIN_TOKEN", "too-short"),
        ("SECRETS_DIR", "/nowhere/at/all"),
    ],
)
def test_a_setting_that_can_not_be_read_is_a_row(name: str, value: str, tmp_path: Path) -> None:
    """Also one by which the doctor itself would find the fleet."""
    settings: dict[str, Any] = {f"FRAMEHOLD_{name}": value, "XDG_RUNTIME_DIR": str(tmp_path)}
    result = framehold("doctor", "-o", "json", **settings)
    found = {one["check"]: one for one in json.loads(result.stdout)}
    assert (result.returncode, result.stderr) == (1, ""), result
    wrong = found[name.lower().replace("_", " ")]
    assert wrong["verdict"] == "fail" and wrong["says"].startswith(f"FRAMEHOLD_{name} is wrong: ")
    assert "too-short" not in result.stdout and "python" in found and "router" in found


def assert_is(finding: Finding, verdict: str) -> None:
    """Check the verdict, and that `do` is there if and only if something is to be done."""
    assert finding.verdict == verdict, finding
    assert bool(finding.do) == (verdict != "ok"), finding
    assert finding.says
