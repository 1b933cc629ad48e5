"""One container: a process that finds its own network, mounts, process ids, host name, user and environment, and no
more of this machine.

What is not there: limits on CPU, seccomp, and the kernel's killing for memory; the limit itself is told where a process
looks for it. The process is the first of its namespace, so a signal that it has no handler for does nothing, as in a
cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from framehold.engine import memory
from tests.helm.kube.root import NEEDED, Root
from tests.helm.kube.volumes import Mount

_APART = ["unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--propagation", "private"]


@dataclass(frozen=True)
class Plan:
    """What is run, and how. `network`: the name of a network namespace; `user`: None stays root."""

    command: Sequence[str]
    environment: Mapping[str, str]
    network: str
    host: str
    folder: str = "/"
    mounts: Iterable[Mount] = ()
    read_only: bool = False
    user: int | None = None
    groups: Sequence[int] = field(default=())
    memory: int | None = None
    stdin: bool = False


class Container:
    """One life of a container. `log` gets what it says."""

    def __init__(self, root: Root, plan: Plan, log: Path) -> None:
        self._root, self.plan, self._log = root, plan, log
        self._outer: asyncio.subprocess.Process | None = None
        self.pid = 0

    async def start(self) -> None:
        """Start it, and return when it has a process."""
        command = ["nsenter", f"--net=/run/netns/{self.plan.network}", *_APART, "sh", "-euc", self._script()]
        pipe = asyncio.subprocess.PIPE if self.plan.stdin else None
        with self._log.open("ab") as log:
            out: IO[bytes] | int = pipe or log
            self._outer = await asyncio.create_subprocess_exec(
                *command, stdin=pipe or asyncio.subprocess.DEVNULL, stdout=out, stderr=log, env=self._environment()
            )
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children")
        while self._outer.returncode is None and not self.pid:
            with contextlib.suppress(OSError, ValueError):
                self.pid = int(children.read_text().split()[0]) if children.read_text().strip() else 0
            await asyncio.sleep(0.005)

    @property
    def pipes(self) -> asyncio.subprocess.Process:
        """What its standard streams are read and written by, where they are piped."""
        assert self._outer is not None and self.plan.stdin
        return self._outer

    @property
    def alive(self) -> bool:
        return self._outer is not None and self._outer.returncode is None

    async def wait(self) -> int:
        """Its exit code; not 0 where a signal has ended it."""
        assert self._outer is not None
        return await self._outer.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.alive and self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def run(self, command: Sequence[str], seconds: float) -> int | None:
        """Run something else in the container; its exit code, None where it took too long and was killed."""
        inside = ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--uts", "--root"]
        words = [*inside, *self._as_user(), *self._in_folder(command)]
        with self._log.open("ab") as log:
            child = await asyncio.create_subprocess_exec(
                *words, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment(), cwd="/"
            )
        try:
            return await asyncio.wait_for(child.wait(), seconds)
        except TimeoutError:
            child.kill()
            await child.wait()
            return None

    def _in_folder(self, command: Sequence[str]) -> list[str]:
        return ["env", "--unset=PWD", "--unset=OLDPWD", f"--chdir={self.plan.folder}", *command]

    def _environment(self) -> dict[str, str]:
        return {"HOME": "/", "HOSTNAME": self.plan.host, **self.plan.environment}

    def _as_user(self) -> list[str]:
        plan, words = self.plan, ["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        if plan.user is not None:
            groups = ",".join(map(str, plan.groups))
            words += [
                f"--reuid={plan.user}",
                f"--regid={plan.user}",
                f"--groups={groups}" if groups else "--clear-groups",
            ]
        return words

    def _script(self) -> str:
        """What makes the container around the process that it becomes."""
        plan, root = self.plan, str(self._root.path)
        lines = [["hostname", plan.host], ["mount", "-t", "proc", "proc", f"{root}/proc"]]
        mounts = list(plan.mounts)
        hidden = [path for path in NEEDED if any(path.is_relative_to(mount.target) for mount in mounts)]
        kept = [(str(self._root.folder("kept", str(path).lstrip("/"))), f"{root}{path}") for path in hidden]
        lines += [["mount", "--bind", place, held] for held, place in kept]
        for mount in mounts:
            place = str(self._root.place(mount.target, mount.source))
            lines.append(["mount", "--bind", str(mount.source), place])
            if mount.read_only:
                lines.append(["mount", "-o", "remount,bind,ro", place])
        # A checkout below /tmp, over which each pod mounts a folder of its own, is there again.
        lines += [line for held, place in kept for line in (["mkdir", "-p", place], ["mount", "--bind", held, place])]
        lines += [["mount", "--bind", str(file), f"{root}{where}"] for file, where in self._limit()]
        if plan.read_only:
            lines.append(["mount", "-o", "remount,bind,ro", root])
        become = ["exec", "chroot", root, *self._as_user(), *self._in_folder(plan.command)]
        return "\n".join(map(shlex.join, [*lines, become]))

    def _limit(self) -> list[tuple[Path, str]]:
        """A file that tells the limit on memory, and where a process looks for one."""
        if self.plan.memory is None:
            return []
        places = [str(file) for file in memory._limits(Path("/proc")) if file.exists()]
        result = self._root.folder("limits") / str(self.plan.memory)
        result.write_text(f"{self.plan.memory}\n")
        return [(result, place) for place in places[:1]]
