"""What Framehold's user must be allowed: the rule in docs/operating.md is enough, and nothing in it is too much."""

import logging
import re
from collections.abc import Iterator
from importlib.resources import files

import pytest
import redis

from framehold_core.errors import StoreUnavailable
from framehold_store import StoreConfig
from framehold_store.redis import RedisStore
from framehold_store.scripts import SCRIPTS
from tests.kit.redis_server import RedisServer, running
from tests.kit.redis_topologies import ClusterTrio, SentinelTrio
from tests.store.calls import Story
from tests.store.rights import RIGHTS, as_user, restrict

pytestmark = pytest.mark.anyio

COMMANDS = [right for right in RIGHTS if right.startswith("+")]


@pytest.fixture
def refusing() -> Iterator[RedisServer]:
    """A server of its own: the user is there for the test alone."""
    with running(RedisServer()) as built:
        yield built


def store_at(url: str, op_timeout: float = 5.0) -> RedisStore:
    return RedisStore(StoreConfig(as_user(url), op_timeout=op_timeout))


def test_the_rule_has_what_the_scripts_run() -> None:
    """No script may meet a refusal halfway, when half of its writes stand."""
    scripts = [path.read_text() for path in files("framehold_store.scripts").iterdir() if path.name.endswith(".lua")]
    run = {name.lower() for text in scripts for name in re.findall(r"redis\.p?call\('([A-Z]+)'", text)}
    assert run
    # A script goes on without it where it is not allowed, or unknown.
    assert run - {"memory"} <= {right[1:] for right in COMMANDS}


@pytest.mark.parametrize("right", COMMANDS)
async def test_a_right_that_is_missing_is_named(
    refusing: RedisServer, right: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Before anything is written, in the error and in one log line."""
    caplog.set_level(logging.WARNING)
    restrict(refusing, *(other for other in RIGHTS if other != right))
    store = store_at(refusing.url, op_timeout=0.3)
    named = right[1:].partition("|")[0]
    with pytest.raises(StoreUnavailable, match=f"(?i)NoPermissionError.*{named}"):
        await store.run(Story().ask)
    assert re.search(f"(?i){named}", caplog.text)
    assert len([record for record in caplog.records if "can't be used" in record.getMessage()]) == 1
    with refusing.client() as admin:
        assert admin.dbsize() == 0
    await store.close()


@pytest.mark.parametrize("script", ["register", "renew", "leave"])
def test_a_lease_that_may_not_be_read_is_not_written(refusing: RedisServer, script: str) -> None:
    """A server before 7.0 can't be asked first: there the script itself must stop."""
    restrict(refusing, *(right for right in RIGHTS if right != "+get"))
    key = "fh:default:node:node-1"
    with refusing.client() as admin:
        admin.set(key, "another's")
        arguments = ("inc", "boot", "fh:default:changes", '"node-1","","live","",', '""]', 1000, 0)
        user = redis.Redis(port=refusing.port, username="framehold", password="pw", protocol=2)
        with user, pytest.raises(redis.ResponseError):
            user.evalsha(user.script_load(SCRIPTS[script].text), 1, key, *arguments)
        assert admin.get(key) == b"another's"


@pytest.mark.parametrize("scope", ["~fh:*", "&fh:*"])
async def test_keys_and_channels_that_are_out_of_reach_are_named(refusing: RedisServer, scope: str) -> None:
    restrict(refusing, *(right.replace("fh:", "other:") if right == scope else right for right in RIGHTS))
    store = store_at(refusing.url, op_timeout=0.3)
    with pytest.raises(StoreUnavailable, match="HSET" if scope[0] == "~" else "PUBLISH, SUBSCRIBE"):
        await store.run(Story().ask)
    await store.close()


async def test_a_cluster_needs_two_rights_more() -> None:
    """To read its map, and to follow a slot that is on its way."""
    with running(ClusterTrio()) as trio:
        for server in trio.servers:
            restrict(server, *RIGHTS, "+cluster|slots", "+asking")
        store = store_at(trio.url)
        story = Story()
        record = f"fh:default:{{{story.call}}}:r"
        source, to = trio.owner(record), (trio.owner(record) + 1) % 3
        await store.run(story.ask)
        await store.scan()
        trio.begin_move(record, to)
        trio.carry_keys(record, source, to)
        assert (await store.run(story.ask_again)).stored is None
        await store.close()


async def test_sentinels_need_one_right_and_their_master_one_more() -> None:
    """The names of the masters; and whether it is one."""
    with running(SentinelTrio()) as trio:
        for server in trio.servers:
            restrict(server, *RIGHTS, "+role")
        for sentinel in trio.sentinels:
            with sentinel.client() as admin:
                admin.execute_command("ACL", "SETUSER", "watcher", "on", ">pw", "+sentinel|masters")
        store = store_at(f"{trio.url}?sentinel_username=watcher&sentinel_password=pw")
        await store.run(Story().ask)
        await store.close()
