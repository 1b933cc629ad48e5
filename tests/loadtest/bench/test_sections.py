"""Parts of the benchmark that can be held to a result: what is counted, not timed, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from framehold_loadtest.bench.generators.rounds import QUESTIONS
from framehold_loadtest.bench.lab import proxies
from framehold_loadtest.bench.lab.servers import run_json
from framehold_loadtest.local.listeners import pick_cores, redis_server
from framehold_loadtest.local.process import NotAvailable


def test_each_round_of_a_call_writes_to_the_store_once() -> None:
    """Its first, its last, and those between."""
    cores = pick_cores()
    with redis_server(cores.load) as store:
        assert run_json("rounds", ["--port", str(store.port)], cores.server, 60) == [1] * (QUESTIONS + 1)


def test_haproxy_is_not_available_where_its_example_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A wheel has no examples beside it."""
    monkeypatch.setattr(proxies, "_EXAMPLE", tmp_path / "haproxy.cfg")
    with (
        pytest.raises(NotAvailable, match="run it from a checkout of the project"),
        proxies.haproxy(pick_cores().server, {"FRAMEHOLD_KEYS": "0" * 64}, [1]),
    ):
        pass
