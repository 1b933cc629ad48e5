"""A Redis without room: what would take more of it is refused whole, and what gives some back is let through."""

from collections.abc import AsyncIterator, Iterator

import pytest

from framehold_core.errors import StoreUnavailable
from framehold_core.requests import Read, Request, Verdict
from framehold_store import StoreConfig
from framehold_store.redis import RedisStore
from tests.kit.redis_server import RedisServer, running
from tests.store.calls import Story

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A Redis that evicts nothing, as it must."""
    with running(RedisServer(options=("--maxmemory-policy", "noeviction"))) as built:
        yield built


@pytest.fixture
async def store(server: RedisServer) -> AsyncIterator[RedisStore]:
    built = RedisStore(StoreConfig(server.url))
    yield built
    await built.close()


def fill(server: RedisServer) -> None:
    with server.client() as client:
        client.config_set("maxmemory", "1")


REFUSED: dict[str, tuple[list[str], str]] = {
    "a new call": ([], "ask"),
    "a new call with an effect": ([], "first_intent"),
    "a further question": (["ask"], "ask_again"),
    "an effect": (["ask"], "intent"),
    "a result": (["ask", "intent"], "result"),
    "a claim": (["ask"], "claim"),
}


@pytest.mark.parametrize(("before", "request_name"), REFUSED.values(), ids=REFUSED)
async def test_what_takes_room_is_refused_whole(
    store: RedisStore, server: RedisServer, before: list[str], request_name: str
) -> None:
    """The record stays as it was, and the same request is applied when there is room again."""
    story = Story()
    for name in before:
        await store.run(getattr(story, name))
    stood = (await store.run(Read(story.call))).stored
    fill(server)
    request: Request = getattr(story, request_name)
    with pytest.raises(StoreUnavailable, match="used memory"):
        await store.run(request)
    assert (await store.run(Read(story.call))).stored == stood
    with server.client() as client:
        client.config_set("maxmemory", "0")
    assert (await store.run(request)).verdict is Verdict.OK


@pytest.mark.parametrize("name", ["finish", "release", "verify"])
async def test_what_gives_room_back_is_let_through(store: RedisStore, server: RedisServer, name: str) -> None:
    """A call that ends drops its journal; one that is handed off, or goes on after a lapse, may end."""
    story = Story()
    await store.run(story.ask)
    fill(server)
    assert (await store.run(getattr(story, name))).verdict is Verdict.OK
