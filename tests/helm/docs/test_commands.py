"""The `framehold` commands of docs/kubernetes.md. The drill "helm test" types them in a router's pod of a cluster."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from framehold_cli.client import addresses, own_settings
from tests.helm.chart.render import Object, secrets_of
from tests.helm.docs import page, releases
from tests.kit.nodes import NodeProcess, node
from tests.kit.redis_server import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.chart]

ANSWER, TOKEN = "Elm", "the-admin-token-of-this-fleet"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def served(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NodeProcess]:
    """A node that serves what the page's trial serves."""
    folder = tmp_path_factory.mktemp("trial")
    (folder / "server.py").write_text(releases.server())
    settings = {"store_url": redis.url, "namespace": folder.name, "admin_token": TOKEN}
    async with node(str(folder / "server.py"), folder, **settings) as running:
        yield running


def _router() -> Object:
    """The pod of a router of the page's trial."""
    install = next(command for command in page.commands() if command.words[:2] == ("helm", "install"))
    made = releases.rendered(releases.values(install)).one("Deployment", f"{page.RELEASE}-router")
    found: Object = made["spec"]["template"]["spec"]
    return found


def test_what_is_typed_in_a_routers_pod_reaches_that_router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ports and its admin token are those that commands without an option take."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    pod = _router()
    (container,) = pod["containers"]
    for variable in container["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])
    for setting, (_, key) in secrets_of(pod).items():
        (tmp_path / setting).write_text(TOKEN if key == "admin-token" else "another secret")
    assert container["env"][0]["name"] == "FRAMEHOLD_SECRETS_DIR"
    monkeypatch.setenv("FRAMEHOLD_SECRETS_DIR", str(tmp_path))
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert addresses.server(None, None) == f"http://127.0.0.1:{ports['http']}/mcp"
    assert addresses.router(None, None) == f"http://127.0.0.1:{ports['admin']}"
    assert own_settings.token() == TOKEN


async def test_a_node_takes_at_its_start_what_the_page_says(served: NodeProcess) -> None:
    text = re.search(r"some (\d+) MiB at its start", page.text())
    assert text is not None
    told = httpx2.get(f"{served.root}/admin/node", headers={"authorization": f"Bearer {TOKEN}"})
    assert told.json()["rss"] / 2**20 == pytest.approx(float(text[1]), rel=0.3)
