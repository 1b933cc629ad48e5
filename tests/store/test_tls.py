"""A store over TLS: one server, a master under sentinels, a cluster."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from framehold_core.errors import StoreUnavailable
from framehold_core.requests import Verdict
from framehold_store import StoreConfig
from framehold_store.redis import RedisStore
from tests.kit.redis_server import RedisServer, running
from tests.kit.redis_topologies import ClusterTrio, SentinelTrio
from tests.store.calls import Story
from tests.store.certificates import Authority

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    built = Authority(tmp_path_factory.mktemp("tls"))
    built.sign("server")
    return built


@pytest.fixture(scope="module")
def secure(authority: Authority) -> Iterator[RedisServer]:
    """A server that speaks TLS alone."""
    with running(RedisServer(tls=authority.folder)) as built:
        yield built


PATIENCE = 20.0
"""Seconds for a handshake on a busy machine, with each of several servers."""


async def verdict(url: str, op_timeout: float = PATIENCE) -> Verdict:
    store = RedisStore(StoreConfig(url, op_timeout=op_timeout))
    try:
        return (await store.run(Story().ask)).verdict
    finally:
        await store.close()
        # TLS says good-bye in the background, and tells nobody when it has.
        await asyncio.sleep(0.1)


async def refused(url: str, why: str) -> None:
    """The store gives no answer, and the error says why. A refused handshake is tried again until the time is over, so
    there is little of it at first, and more where a busy machine did not come to the refusal."""
    for op_timeout in (1.0, 4.0, PATIENCE):
        with pytest.raises(StoreUnavailable) as result:
            await verdict(url, op_timeout)
        if why in str(result.value):
            return
    raise AssertionError(str(result.value))


async def test_a_server_that_the_authority_signed_is_trusted(secure: RedisServer, authority: Authority) -> None:
    """Its name is checked: the address that the URL has."""
    assert await verdict(f"{secure.url}?ssl_ca_certs={authority.path}") is Verdict.OK


async def test_another_authority_is_not_trusted(secure: RedisServer, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", "somebody else").path
    await refused(f"{secure.url}?ssl_ca_certs={other}", "CERTIFICATE_VERIFY_FAILED")


async def test_a_name_that_is_not_the_certificates_is_refused(secure: RedisServer, authority: Authority) -> None:
    url = f"rediss://localhost:{secure.port}?ssl_ca_certs={authority.path}"
    await refused(url, "Hostname mismatch")
    assert await verdict(f"{url}&ssl_check_hostname=false") is Verdict.OK


async def test_the_wrong_one_of_redis_and_rediss_fails_in_time(
    secure: RedisServer, shared_server: RedisServer, authority: Authority
) -> None:
    await refused(secure.url.replace("rediss", "redis"), "Connection")
    with pytest.raises(StoreUnavailable, match="did not answer within 1 s"):
        await verdict(f"{shared_server.url.replace('redis', 'rediss')}?ssl_ca_certs={authority.path}", op_timeout=1.0)


async def test_a_server_that_wants_to_know_its_client(authority: Authority) -> None:
    """The URL names certificate and key; without them the server closes the door."""
    certificate, key = authority.sign("client")
    with running(RedisServer(tls=authority.folder)) as server:
        with server.client() as admin:
            admin.config_set("tls-auth-clients", "yes")
        plain = f"{server.url}?ssl_ca_certs={authority.path}"
        await refused(plain, "Connection")
        assert await verdict(f"{plain}&ssl_certfile={certificate}&ssl_keyfile={key}") is Verdict.OK


@pytest.mark.parametrize("kind", [SentinelTrio, ClusterTrio])
async def test_several_servers_over_tls(kind: type[SentinelTrio | ClusterTrio], authority: Authority) -> None:
    """Sentinels as well; each is checked by the name that the others gave it."""
    with running(kind(tls=authority.folder)) as trio:
        assert await verdict(f"{trio.url}?ssl_ca_certs={authority.path}") is Verdict.OK
        with pytest.raises(StoreUnavailable):
            await verdict(trio.url, op_timeout=1.0)


@pytest.mark.parametrize("kind", [RedisServer, SentinelTrio, ClusterTrio])
async def test_a_replaced_file_counts_from_the_next_connection_on(
    kind: type[RedisServer | SentinelTrio | ClusterTrio], authority: Authority, tmp_path: Path
) -> None:
    """Kubernetes replaces the files of a mounted Secret in a process that goes on: authority, certificate and key."""
    other = Authority(tmp_path / "other", "somebody else")
    files = [tmp_path / name for name in ("ca.pem", "client.pem", "client.key")]
    with running(kind(tls=authority.folder)) as servers:
        names = zip(("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"), files, strict=True)
        url = f"{servers.url}?{'&'.join(f'{name}={path}' for name, path in names)}"
        replace(files, other.path, *other.sign("client"))
        store = RedisStore(StoreConfig(url, op_timeout=1.0))
        with pytest.raises(StoreUnavailable):
            await store.run(Story().ask)
        replace(files, authority.path, *authority.sign("client"))
        async with asyncio.timeout(PATIENCE):
            while not await answers(store):
                pass
        await store.close()
        await asyncio.sleep(0.1)


def replace(files: list[Path], *others: Path) -> None:
    for path, other in zip(files, others, strict=True):
        path.write_bytes(other.read_bytes())


async def answers(store: RedisStore) -> bool:
    try:
        return (await store.run(Story().ask)).verdict is Verdict.OK
    except StoreUnavailable:
        return False
