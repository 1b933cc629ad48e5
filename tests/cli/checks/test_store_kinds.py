"""The doctor and `up` look at a store under sentinels, a cluster and a store over TLS as at any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from framehold_cli.checks import store_health
from framehold_cli.checks.findings import Finding
from framehold_cli.local import local_store
from framehold_core.errors import ConfigError
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_store import StoreConfig
from tests.kit.redis_server import RedisServer, running
from tests.kit.redis_topologies import ClusterTrio, SentinelTrio
from tests.store.certificates import Authority

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[SentinelTrio, ClusterTrio])
def trio(request: pytest.FixtureRequest) -> Iterator[SentinelTrio | ClusterTrio]:
    with running(request.param()) as built:
        yield built


async def findings(url: str) -> dict[str, Finding]:
    found = await store_health.check(StoreConfig(url, op_timeout=0.5), LeaseSeal(Trust(()), "default"))
    return {finding.check: finding for finding in found}


async def test_the_doctor_asks_a_store_of_several_servers(trio: SentinelTrio | ClusterTrio) -> None:
    """The doctor finds the store and its version. `up` uses the store too."""
    found = await findings(trio.url)
    assert (found["store"].verdict, found["nodes"].verdict) == ("ok", "warn")
    assert found["store"].says.startswith(StoreConfig(trio.url).target)
    chosen = await local_store.choose(StoreConfig(trio.url), lasting_keys=True)
    assert chosen.url == trio.url


async def test_replicas_that_no_write_needs_are_told() -> None:
    """The doctor warns, because a replaced master would continue to accept writes."""
    with running(SentinelTrio()) as trio:
        assert (await findings(trio.url))["store replicas"].verdict == "warn"
        with trio.master.client() as client:
            client.config_set("min-replicas-to-write", 1)
        assert (await findings(trio.url))["store replicas"].verdict == "ok"


async def test_sentinels_that_know_no_master_are_told() -> None:
    """Before anything starts, a line says what to check."""
    url = "redis+sentinel://127.0.0.1:1/fleet"
    found = (await findings(url))["store"]
    assert found.verdict == "fail"
    assert "has no master" in found.says
    with pytest.raises(ConfigError, match="has no master"):
        await local_store.choose(StoreConfig(url), lasting_keys=True)


async def test_a_certificate_that_isnt_trusted_is_told(tmp_path: Path) -> None:
    """The line names the option for the certificate authority."""
    authority = Authority(tmp_path)
    authority.sign("server")
    with running(RedisServer(tls=tmp_path)) as server:
        found = (await findings(server.url))["store"]
        assert "a certificate that isn't trusted" in found.says
        assert "ssl_ca_certs" in found.do
        assert (await findings(f"{server.url}?ssl_ca_certs={authority.path}"))["store"].verdict == "ok"
