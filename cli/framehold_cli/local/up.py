"""`framehold up`: a router, nodes and a store on this machine, from one command to one Ctrl-C.

1. check: TARGET can be imported, the router's port is free, a given store answers. Otherwise one error line is printed,
   and nothing is started
2. start the store, then the nodes and the router, and wait until all are ready
3. print the table and a call to paste
4. keep the processes alive until a signal
5. end the nodes and the router, then the store; no process is left
"""

from __future__ import annotations

import asyncio
import re
import secrets
import signal
import sys
import webbrowser
from collections.abc import Awaitable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from framehold import config
from framehold.engine import memory
from framehold_core.errors import ConfigError
from framehold_fleet.identity.router_keys import text_of
from framehold_fleet.models.choices import State
from framehold_fleet.models.nodes import OverviewView

from ..checks import environment as environments
from ..checks import readiness
from ..client import local_fleets, own_settings
from ..client.api import ApiClient
from ..client.local_fleets import LocalFleet
from ..serve import target_file
from ..serve.fate import OpenCalls
from ..show.voice import Voice
from . import check, local_store, ports, reload
from .children import Spec
from .keeper import StartFailed
from .local_store import LocalStore
from .rounds import RoundVoice
from .supervisor import Pace, Supervisor

EXAMPLE = "framehold.examples.booking"
_BANNER = re.compile(r"framehold (node|router)\b.* serves ")
_QUIET = "warning"
_LAST_LOOK = 1.0
"""Seconds for the router to say how many calls are open, when all is to end."""
ADMIN_TOKEN, KEYS, ROUTER_KEYS = "FRAMEHOLD_ADMIN_TOKEN", "FRAMEHOLD_KEYS", "FRAMEHOLD_ROUTER_KEYS"
PLAYGROUND, MEMORY_LIMIT = "FRAMEHOLD_PLAYGROUND", "FRAMEHOLD_MEMORY_LIMIT"


@dataclass(frozen=True)
class UpArguments:
    """The arguments of `framehold up`."""

    target: str = EXAMPLE
    nodes: int = 3
    port: int = 8080
    store: str | None = None
    log_level: str | None = None
    open_browser: bool = False
    reload: bool = False
    quiet: bool = False


@dataclass
class Signals:
    """The signals that were received: the first Ctrl-C (or SIGTERM) ends the fleet, the second kills it."""

    once: asyncio.Event = field(default_factory=asyncio.Event)
    twice: asyncio.Event = field(default_factory=asyncio.Event)

    def listen(self) -> None:
        """Handle signals from now on, in the running event loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # nohup makes the process ignore SIGHUP, and it stays ignored.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, self.record)

    def record(self) -> None:
        """Record one more signal."""
        (self.twice if self.once.is_set() else self.once).set()


def run(plan: UpArguments) -> int:
    """Run the fleet until a signal ends it; return the exit code.

    Raises:
        ConfigError: a check failed before anything was started.
    """
    return asyncio.run(_run(plan, RoundVoice()))


async def _run(plan: UpArguments, voice: Voice) -> int:
    signals = Signals()
    signals.listen()
    target_file.named(plan.target)
    settings = config.load(store_url=plan.store, log_level=plan.log_level)
    port = ports.take(plan.port)
    voice.say("\n".join([*environments.lines(), _starting(plan, settings)]))
    environment = _environment(settings, plan.nodes)
    # Of what the table needs, the SDK's client takes longest to import: this is done while the child imports TARGET.
    asyncio.get_running_loop().run_in_executor(None, import_module, ".welcome", __package__)
    found = await _until_set(signals.once, check.in_child(plan.target, environment))
    if found is None:
        return 0
    store = await local_store.choose(settings.store(), lasting_keys=bool(settings.keys))
    kept: Path | None = None
    try:
        environment["FRAMEHOLD_STORE_URL"] = store.url
        kept = local_fleets.keep(_described(plan, settings, port, found, store, environment))
        return await StartedFleet(plan, found, store, port, environment, voice).live(signals)
    finally:
        local_fleets.drop(kept)
        store.remove()


def _starting(plan: UpArguments, settings: config.Settings) -> str:
    """The first line of output. It is printed at once, because importing TARGET may take seconds."""
    nodes = "1 node" if plan.nodes == 1 else f"{plan.nodes} nodes"
    own = settings.store().scheme in ("memory", local_store.EMBEDDED)
    what = f"{nodes}, a router and a store" if own else f"{nodes} and a router"
    # Each node logs which handlers are rehearsed.
    rehearsal = "; a rehearsal (FRAMEHOLD_REHEARSE): each answer replays its call" if settings.rehearse else ""
    return f"starting {what}{rehearsal} ..."


def _described(
    plan: UpArguments,
    settings: config.Settings,
    port: int,
    found: check.Checked,
    store: LocalStore,
    environment: Mapping[str, str],
) -> LocalFleet:
    """The fleet as other commands of this user find it. What the user gave is not among its secrets."""
    return LocalFleet(
        port=port,
        serves=_served(plan),
        folder=str(found.file.parent),
        namespace=settings.namespace,
        admin_token=environment.get(ADMIN_TOKEN, ""),
        keys=environment.get(KEYS, ""),
        store_url=store.url if store.specs else "",
    )


def _served(plan: UpArguments) -> str:
    return "the booking example" if plan.target == EXAMPLE else plan.target


def _environment(settings: config.Settings, nodes: int) -> dict[str, str]:
    """The variables that all processes of the fleet get. Secrets that the environment already has are not replaced. The
    nodes share the memory that one node alone would take."""
    memory_limit = memory.allowed(None)
    share = {} if settings.memory_limit or memory_limit is None else {MEMORY_LIMIT: str(memory_limit // nodes)}
    fresh = secrets.token_hex(32)
    usual = {} if settings.keys else {KEYS: fresh}
    level = {} if "log_level" in settings.model_fields_set else {"FRAMEHOLD_LOG_LEVEL": _QUIET}
    token = {ADMIN_TOKEN: secrets.token_hex(16)} if settings.admin_token is None else {}
    # The nodes may be killed from the page: the supervisor starts them again.
    playground = settings.playground if "playground" in settings.model_fields_set else "kill"
    sagas = {} if "sagas" in settings.model_fields_set else {"FRAMEHOLD_SAGAS": "true"}
    return {
        "FRAMEHOLD_ROUTE_HEADERS": "true",
        PLAYGROUND: playground,
        ROUTER_KEYS: text_of(settings.secrets() or (fresh.encode(),)),
        # One port for all of a process: nodes and the router would all want the same admin port.
        "FRAMEHOLD_ADMIN_PORT": "0",
        "PYTHONUNBUFFERED": "1",
        **share,
        **token,
        **usual,
        **level,
        **sagas,
    }


class StartedFleet:
    """The processes of one run of `framehold up`, and the output about them."""

    def __init__(
        self,
        plan: UpArguments,
        found: check.Checked,
        store: LocalStore,
        port: int,
        environment: dict[str, str],
        voice: Voice,
        pace: Pace | None = None,
    ) -> None:
        self.plan = plan
        self.found = found
        self.store = store
        self.voice = voice
        self.url = f"http://{ports.HOST}:{port}"
        self.nodes = {f"node-{number}": place for number, place in enumerate(ports.beside(port, plan.nodes), start=1)}
        self._environment = environment
        specs = [self._node(name, place) for name, place in self.nodes.items()]
        groups = [list(store.specs), [*specs, self._router(port)]]
        self.supervisor = Supervisor([group for group in groups if group], voice, pace, _is_banner)

    async def live(self, signals: Signals) -> int:
        """Start the fleet, serve until a signal, end the fleet. Return the exit code."""
        failed: StartFailed | None = None
        left = ""
        # The watch begins before the nodes import TARGET: a later change is not in the code that they run.
        changes = reload.watch(self.found.file.parent) if self.plan.reload else None
        try:
            await _until_set(signals.once, self._start())
            if not signals.once.is_set():
                await _until_set(signals.once, self._serve(changes))
                left = await self._fate_of_open_calls()
        except StartFailed as error:
            failed = error
        finally:
            hurry = asyncio.create_task(_kill_on_second_signal(signals, self.supervisor))
            await self.supervisor.stop()
            hurry.cancel()
        if failed is not None:
            print(*(f"  {line}" for line in failed.lines), sep="\n", end="\n" * bool(failed.lines), file=sys.stderr)
            print(f"framehold: {failed}; everything was stopped again", file=sys.stderr)
            return 1
        self.voice.say(f"stopped{left}")
        return 0

    async def _start(self) -> None:
        await self.supervisor.start()
        pids = {name: self._pid(name) for name in self.nodes}
        source = _shown(self.found.file) if self.plan.target == EXAMPLE else ""
        token = self._environment.get(ADMIN_TOKEN, "")
        playground = self._environment.get(PLAYGROUND, "off") != "off"
        from .welcome import Welcome

        served, store = _served(self.plan), self.store.sentence
        welcome = Welcome(self.url, served, self.nodes, pids, store, self.found.fate, token, playground, source)
        self.voice.say(await welcome.text(self.voice.colour))
        if self.plan.open_browser:
            await asyncio.to_thread(webbrowser.open, f"{self.url}/dashboard")

    async def _serve(self, changes: reload.Changes | None) -> None:
        """Keep the fleet running until this is cancelled; restart the nodes at `changes`."""
        if changes is not None:
            await reload.follow(changes, self.supervisor, list(self.nodes), self._check_again, self.voice)
        await asyncio.get_running_loop().create_future()

    async def _check_again(self) -> str:
        """Check TARGET's present code. Return what happens to open calls when the nodes are restarted.

        Raises:
            ConfigError: the code can't be served."""
        before, self.found = self.found, await self.supervisor.check(list(self.nodes))
        for name in self.nodes:
            keeper = self.supervisor.keeper(name)
            keeper.spec = replace(keeper.spec, loss=self.found.fate.death())
        return before.fate.reload(self.found.fate, await asyncio.to_thread(self._open_calls))

    async def _fate_of_open_calls(self) -> str:
        """What becomes of the calls that are open now, as the end of a sentence; empty if there is none."""
        asking = asyncio.create_task(asyncio.to_thread(self._count_open))
        # A router that hangs is ended a moment later, and its request with it.
        await asyncio.wait((asking,), timeout=_LAST_LOOK)
        if not (asking.done() and (calls := asking.result())):
            return ""
        count = "1 open call" if calls == 1 else f"{calls} open calls"
        if self.store.specs:
            return f"; lost with the store: {count}"
        return f"; {count} stay{'s' * (calls == 1)} in your store, for nodes with the same keys"

    def _count_open(self) -> int | None:
        """How many calls are open in the fleet; None if its router does not say so now."""
        try:
            with self._api() as api:
                return api.get("overview", OverviewView).view.open.total
        except ConfigError:
            return None

    def _open_calls(self) -> OpenCalls | None:
        """The calls that are open in the fleet; None if its router does not say so now. Those that no node holds are
        re-entrant."""
        try:
            with self._api() as api:
                held = [call for page in api.all_leases(state=State.PARKED) for call in page.view.items]
                others = api.get("overview", OverviewView).view.open
        except ConfigError:
            return None
        total = len(held) + others.asleep.count + others.handed_off.count + others.orphaned.count
        return OpenCalls(total, sum(not call.reentrant for call in held))

    def _api(self) -> ApiClient:
        return ApiClient(self.url, self._environment.get(ADMIN_TOKEN) or own_settings.token())

    def _pid(self, name: str) -> int:
        child = self.supervisor.keeper(name).child
        return child.pid if child else 0

    def _node(self, name: str, port: int) -> Spec:
        address = f"http://{ports.HOST}:{port}"
        # The order of a set of texts differs from node to node, in each run: code that depends on it is found.
        own = {"FRAMEHOLD_NODE_ID": name, "FRAMEHOLD_ADVERTISE_URL": address, "PYTHONHASHSEED": name.rpartition("-")[2]}
        shown = () if self.plan.quiet else ("--show-rounds",)
        command = ("node", "--host", ports.HOST, "--port", str(port), *shown, "--", self.plan.target)
        return self._spec(name, command, own, address, self.found.fate.death())

    def _router(self, port: int) -> Spec:
        command = ("router", "--host", ports.HOST, "--port", str(port))
        return self._spec("router", command, {KEYS: ""}, self.url, "")

    def _spec(self, name: str, command: tuple[str, ...], own: dict[str, str], address: str, loss: str) -> Spec:
        return Spec(
            name,
            (sys.executable, "-P", "-m", "framehold", *command),
            {**self._environment, **own},
            ready=partial(readiness.is_ready, f"{address}/readyz"),
            loss=loss,
            # As at a Ctrl-C, a node doesn't wait for answers to its parked calls: the whole fleet ends.
            stop_signal=signal.SIGINT,
        )


def _is_banner(line: str) -> bool:
    """Whether a process's line repeats what `up` printed: its address is in the table, and warnings about the
    environment are above the table."""
    return _BANNER.match(line) is not None or environments.is_line(line)


def _shown(file: Path) -> str:
    """The path of a file, from the current folder if it is below it."""
    return str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)


async def _until_set(event: asyncio.Event, doing: Coroutine[Any, Any, Any] | Awaitable[Any]) -> Any:
    """Return the result of `doing`. As soon as `event` is set, cancel `doing` and return None."""
    task = asyncio.ensure_future(doing)
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        return None
    finally:
        waiting.cancel()
        task.cancel()
        await asyncio.wait((task,))


async def _kill_on_second_signal(signals: Signals, supervisor: Supervisor) -> None:
    await signals.twice.wait()
    supervisor.kill()
