"""`framehold up`: a router, nodes and a store on this machine, from one command to one Ctrl-C.

1. look: TARGET can be imported, the ports are free, a given store answers; else one line, and nothing was started
2. start the store, then the nodes and the router, and wait until all are ready
3. print the table and a call to paste
4. keep them alive, until a signal
5. end all of them, nodes and router first; nothing is left behind
"""

from __future__ import annotations

import asyncio
import re
import secrets
import signal
import sys
import webbrowser
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from .. import config
from . import check, kept_token, local_store, ports, readiness, reload
from . import environment as environments
from .children import Spec
from .keeper import StartFailed
from .local_store import LocalStore
from .supervisor import Pace, Supervisor
from .voice import Voice
from .welcome import Welcome

EXAMPLE = "framehold.examples.booking"
_BANNER = re.compile(r"framehold (node|router)\b.* serves ")
_QUIET = "warning"
ADMIN_TOKEN = "FRAMEHOLD_ADMIN_TOKEN"


@dataclass(frozen=True)
class Plan:
    """What `framehold up` was asked for."""

    target: str = EXAMPLE
    nodes: int = 3
    port: int = 8080
    store: str | None = None
    log_level: str | None = None
    open_browser: bool = False
    reload: bool = False


@dataclass
class Signals:
    """What the terminal wants: the first Ctrl-C (or SIGTERM) ends the fleet, the second one doesn't wait."""

    once: asyncio.Event = field(default_factory=asyncio.Event)
    twice: asyncio.Event = field(default_factory=asyncio.Event)

    def listen(self) -> None:
        """From here on, in this loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Under nohup a terminal that closes is to be ignored.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, self.come)

    def come(self) -> None:
        """One more."""
        (self.twice if self.once.is_set() else self.once).set()


def run(plan: Plan) -> int:
    """Run the fleet until a signal ends it; the exit code.

    Raises:
        ConfigError: something is wrong before anything was started.
    """
    return asyncio.run(_run(plan, Voice()))


async def _run(plan: Plan, voice: Voice) -> int:
    signals = Signals()
    signals.listen()
    settings = config.load(store_url=plan.store, log_level=plan.log_level)
    port = ports.take(plan.port)
    voice.say("\n".join([*environments.lines(), _starting(plan, settings)]))
    environment = _environment(settings)
    found = await _unless(signals.once, check.in_child(plan.target, environment))
    if found is None:
        return 0
    store = await local_store.choose(settings.store(), lasting_keys=bool(settings.keys))
    kept: Path | None = None
    try:
        environment["FRAMEHOLD_STORE_URL"] = store.url
        if ADMIN_TOKEN in environment:
            kept = kept_token.keep(port, environment[ADMIN_TOKEN])
        return await Fleet(plan, found, store, port, environment, voice).live(signals)
    finally:
        kept_token.drop(kept)
        store.remove()


def _starting(plan: Plan, settings: config.Settings) -> str:
    """What is about to happen: importing TARGET alone may take seconds."""
    nodes = "1 node" if plan.nodes == 1 else f"{plan.nodes} nodes"
    own = settings.store().scheme in ("memory", local_store.EMBEDDED)
    what = f"{nodes}, a router and a store" if own else f"{nodes} and a router"
    # The nodes say of which handlers, in their own lines.
    rehearsal = "; a rehearsal (FRAMEHOLD_REHEARSE): each answer replays its call" if settings.rehearse else ""
    return f"starting {what}{rehearsal} ..."


def _environment(settings: config.Settings) -> dict[str, str]:
    """What all processes of the fleet are told. Secrets that the environment has stay as they are."""
    usual = {"FRAMEHOLD_KEYS": secrets.token_hex(32)} if not settings.keys else {}
    level = {} if "log_level" in settings.model_fields_set else {"FRAMEHOLD_LOG_LEVEL": _QUIET}
    token = {ADMIN_TOKEN: secrets.token_hex(16)} if settings.admin_token is None else {}
    return {
        "FRAMEHOLD_ROUTE_HEADERS": "true",
        "PYTHONUNBUFFERED": "1",
        **token,
        **usual,
        **level,
    }


class Fleet:
    """The processes of one run, and what is told about them."""

    def __init__(
        self,
        plan: Plan,
        found: check.Checked,
        store: LocalStore,
        port: int,
        environment: dict[str, str],
        voice: Voice,
        pace: Pace | None = None,
    ) -> None:
        self.plan, self.found, self.store, self.voice = plan, found, store, voice
        self.url = f"http://{ports.HOST}:{port}"
        self.nodes = {f"node-{number}": place for number, place in enumerate(ports.beside(port, plan.nodes), start=1)}
        self._environment = environment
        specs = [self._node(name, place) for name, place in self.nodes.items()]
        groups = [list(store.specs), [*specs, self._router(port)]]
        self.supervisor = Supervisor([group for group in groups if group], voice, pace, _is_banner)

    async def live(self, signals: Signals) -> int:
        """Start, serve until a signal, end. The exit code."""
        failed: StartFailed | None = None
        # From before the nodes import it: what changes from then on is not what they have.
        changes = reload.watch(self.found.file.parent) if self.plan.reload else None
        try:
            await _unless(signals.once, self._start())
            if not signals.once.is_set():
                await _unless(signals.once, self._serve(changes))
        except StartFailed as error:
            failed = error
        finally:
            hurry = asyncio.create_task(_hurry(signals, self.supervisor))
            await self.supervisor.stop()
            hurry.cancel()
        if failed is not None:
            print(*(f"  {line}" for line in failed.lines), sep="\n", end="\n" * bool(failed.lines), file=sys.stderr)
            print(f"framehold: {failed}; everything was stopped again", file=sys.stderr)
            return 1
        self.voice.say("stopped")
        return 0

    async def _start(self) -> None:
        await self.supervisor.start()
        pids = {name: self._pid(name) for name in self.nodes}
        served = "the booking example" if self.plan.target == EXAMPLE else self.plan.target
        token = self._environment.get(ADMIN_TOKEN, "")
        welcome = Welcome(self.url, served, self.nodes, pids, self.store.sentence, self.found.fate, token)
        self.voice.say(await welcome.text(self.voice.colour))
        if self.plan.open_browser:
            await asyncio.to_thread(webbrowser.open, f"{self.url}/dashboard")

    async def _serve(self, changes: reload.Changes | None) -> None:
        """Until it is cancelled."""
        if changes is None:
            await asyncio.get_running_loop().create_future()
            return
        await reload.follow(changes, self.supervisor, list(self.nodes), self._check_again, self.voice)

    async def _check_again(self) -> str:
        """Look at TARGET as it is now; what becomes of calls when its nodes are restarted. Raises ConfigError where it
        can't be served."""
        before, self.found = self.found, await check.in_child(self.plan.target, self._environment)
        for name in self.nodes:
            keeper = self.supervisor.keeper(name)
            keeper.spec = replace(keeper.spec, loss=self.found.fate.death())
        return before.fate.reload(self.found.fate)

    def _pid(self, name: str) -> int:
        child = self.supervisor.keeper(name).child
        return child.pid if child else 0

    def _node(self, name: str, port: int) -> Spec:
        address = f"http://{ports.HOST}:{port}"
        own = {"FRAMEHOLD_NODE_ID": name, "FRAMEHOLD_ADVERTISE_URL": address}
        command = ("node", "--host", ports.HOST, "--port", str(port), "--", self.plan.target)
        return self._spec(name, command, own, address, self.found.fate.death())

    def _router(self, port: int) -> Spec:
        return self._spec("router", ("router", "--host", ports.HOST, "--port", str(port)), {}, self.url, "")

    def _spec(self, name: str, command: tuple[str, ...], own: dict[str, str], address: str, loss: str) -> Spec:
        return Spec(
            name,
            (sys.executable, "-P", "-m", "framehold", *command),
            {**self._environment, **own},
            ready=partial(readiness.is_ready, f"{address}/readyz"),
            loss=loss,
            # As if each had heard the Ctrl-C itself: a whole fleet that ends waits for nobody's answer.
            ends=signal.SIGINT,
        )


def _is_banner(line: str) -> bool:
    """Where a process serves stands in the table already, and what is odd about the environment above it."""
    return _BANNER.match(line) is not None or environments.is_line(line)


async def _unless(event: asyncio.Event, doing: Coroutine[Any, Any, Any] | Awaitable[Any]) -> Any:
    """What `doing` gives, or None as soon as `event` is set, `doing` being cancelled then."""
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


async def _hurry(signals: Signals, supervisor: Supervisor) -> None:
    await signals.twice.wait()
    supervisor.kill()
