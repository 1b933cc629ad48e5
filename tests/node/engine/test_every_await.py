"""No write and no outcome of a call is lost silently, whatever is raised at any await of the engine and of the store.

The awaits are found by the syntax trees, and none is left out by name. For each one a scene is played that reaches it,
and there an exception is raised once. Then each request has its right outcome, or an error in words that names what to
do next; no effect has run twice; and all loops of both nodes go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import gc
import itertools
import logging
import traceback
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from framehold import app
from framehold.engine import orphan_scan, runtime
from tests.kit.processes import ROOT
from tests.kit.redis_server import RedisServer, running
from tests.kit.redis_topologies import ClusterTrio, SentinelTrio
from tests.node.injected_pair import SOON, Pair, Pulses
from tests.node.injected_scenes import BACKGROUND, SCENES, Scene, idle
from tests.node.injecting import Injector, Site

pytestmark = pytest.mark.anyio
LIMIT, BUG = OSError(errno.EMFILE, "Too many open files"), RuntimeError("injected")
Raised = tuple[Exception, bool]
"""An exception, and whether it is raised after what is awaited has ended."""
ALL: tuple[Raised, ...] = ((LIMIT, False), (BUG, False), (LIMIT, True), (BUG, True))
NOT_REACHED = 0
"""How many awaits no scene may reach."""
WORDS, RAISED, AGAIN, GOES_ON, NOT_MET = (
    "a: the call failed in words",
    "a: its caller got the error, and succeeded at the second try",
    "b: tried again, right outcome",
    "c: the loop goes on",
    "not met",
)


class Theatre:
    """Plays scenes while one await raises. The nodes are made anew after a play that failed. `words` are all the errors
    that clients heard, `strays` what the event loop was told that nobody else heard."""

    def __init__(self, injector: Injector, pair: Pair) -> None:
        self._injector, self._pair = injector, pair
        self._nodes = contextlib.AsyncExitStack()
        self._namespaces = map(f"{pair.namespace}-{{}}".format, itertools.count())
        self.words: set[str] = set()
        self.strays: list[Mapping[str, Any]] = []

    async def open(self) -> None:
        pair = self._pair
        pair.namespace = next(self._namespaces)
        pair.a = await self._nodes.enter_async_context(pair.node("a"))
        pair.b = await self._nodes.enter_async_context(pair.node("b", 2))
        await pair.call(pair.a)
        await pair.call(pair.b)
        pair.pulses = [Pulses(node, pair.redis, pair.namespace) for node in (pair.a, pair.b)]

    async def close(self) -> None:
        nodes, self._nodes = self._nodes, contextlib.AsyncExitStack()
        await nodes.aclose()

    async def reached(self) -> dict[Site, list[Scene]]:
        """For each site the scenes that reach it, background first."""
        found: dict[Site, list[Scene]] = {site: [] for site in self._injector.sites}
        for scene in SCENES:
            before = self._injector.met.copy()
            await self._play(scene)
            for site in self._injector.met - before:
                found[site].append(scene)
        return found

    async def ending(self, scene: Scene, site: Site, error: Exception, late: bool) -> str:
        """How the scene ends if `site` raises `error` once; a text that begins with FAILED if something was lost."""
        try:
            return await self._troubled(scene, site, error, late)
        except (Exception, asyncio.CancelledError) as failure:
            self._injector.disarm()
            heard = [*self._pair.words, *map(repr, self._pair.raised)]
            # A play that stood somewhere was cancelled there.
            stood = traceback.extract_tb((failure.__cause__ or failure).__traceback__)
            where = " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in stood)
            with contextlib.suppress(Exception):
                async with asyncio.timeout(2 * SOON):
                    await self.close()
            await self.open()
            return f"FAILED: {failure!r} at {where}; heard: {heard}"

    async def _troubled(self, scene: Scene, site: Site, error: Exception, late: bool) -> str:
        pair, injector = self._pair, self._injector
        injector.arm(site, error, late)
        await self._play(scene)
        for _ in range(10):
            if injector.armed is None:
                break
            await pair.mended(pair.a)
        else:
            injector.disarm()
            return NOT_MET
        words, raised = [*pair.words], [*pair.raised]
        self.words |= {*words}
        await asyncio.gather(idle(pair), pair.call(pair.a), pair.call(pair.b))
        if words or raised:
            return WORDS if words else RAISED
        return GOES_ON if scene in BACKGROUND else AGAIN

    async def _play(self, scene: Scene) -> None:
        pair = self._pair
        pair.begin()
        async with asyncio.timeout(5 * SOON):
            await scene(pair)


@pytest.fixture
def quiet() -> Iterator[None]:
    """Each play causes some log lines with tracebacks. Connections whose end was made to fail are left over: they are
    collected here, before another test meets their warnings."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@pytest.fixture
def injector(monkeypatch: pytest.MonkeyPatch) -> Injector:
    """Knows each await. The loops of nodes have short pauses."""
    found = Injector()
    found.install(sorted((ROOT / "node/framehold/engine").glob("*.py")), "framehold.engine", monkeypatch)
    found.install(sorted((ROOT / "store/framehold_store").glob("*.py")), "framehold_store", monkeypatch)
    monkeypatch.setattr(runtime, "SWEEP", 0.02)
    monkeypatch.setattr(orphan_scan, "PORTION", 8)
    monkeypatch.setattr(app, "OrphanScan", functools.partial(orphan_scan.OrphanScan, pace=(0.0, 0.02)))
    return found


@pytest.fixture
async def theatre(injector: Injector, redis: RedisServer, tmp_path: Path, quiet: None) -> AsyncIterator[Theatre]:
    with running(ClusterTrio()) as cluster, running(SentinelTrio()) as sentinels:
        built = Theatre(injector, Pair(redis, tmp_path.name, cluster, sentinels))
        loop = asyncio.get_running_loop()
        usual = loop.get_exception_handler()
        loop.set_exception_handler(lambda _, context: built.strays.append(context))
        of_python = vars(warnings)["_warn_unawaited_coroutine"]
        await built.open()
        yield built
        await built.close()
        loop.set_exception_handler(usual)
        assert vars(warnings)["_warn_unawaited_coroutine"] is of_python, "a node whose end failed has left it replaced"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("thorough", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["one", "all"])
async def test_no_exception_at_any_await_loses_a_call(thorough: bool, theatre: Theatre, injector: Injector) -> None:
    """Each await is played in the first background scene and in the first other one that reach it. Both exceptions are
    raised in turn, or all of them at each await, before and after what is awaited."""
    scenes = await theatre.reached()
    endings: dict[Site, list[str]] = {site: [] for site in injector.sites}
    for number, site in enumerate(injector.sites):
        for (error, late), is_background in itertools.product(ALL if thorough else (ALL[number % 2],), (True, False)):
            for scene in (scene for scene in scenes[site] if (scene in BACKGROUND) is is_background):
                ended = await theatre.ending(scene, site, error, late)
                if ended is not NOT_MET:
                    endings[site].append(f"{ended} ({scene.__name__}, {type(error).__name__})")
                    break
    for site, found in endings.items():
        print(f"{site!s:95} {'; '.join(found) or 'not reached'}")
    missed = [str(site) for site, ended in endings.items() if not ended]
    assert not [f"{site} {text}" for site, ended in endings.items() for text in ended if text.startswith("FAILED")]
    assert len(missed) <= NOT_REACHED, missed
    gc.collect()
    assert not [stray for stray in theatre.strays if "never retrieved" in stray["message"]]
    assert all("again" in text or "start" in text for text in theatre.words), theatre.words
