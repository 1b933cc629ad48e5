"""A folder that is the root of processes, as a container's is: mounts and network of their own, and the base image's
interpreter where that image has it.

There is no base image here: the system's own /usr stands in for it, and the interpreter that runs these tests for that
in /usr/local. Needs `unshare` (util-linux) and the right to use it: root's, or user namespaces for everybody.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

USER = 10001
_SYSTEM = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
_KERNEL = ("/dev", "/proc", "/sys")
_IS_ROOT = os.geteuid() == 0
_UP = """
import fcntl, socket, struct
with socket.socket() as any:
    fcntl.ioctl(any, 0x8914, struct.pack("16sh14x", b"lo", 0x41))  # SIOCSIFFLAGS: up, running
print("up", flush=True)
input()
"""


class Network:
    """A network of its own, with nothing but the way to itself: any port in it is free."""

    def __init__(self, pid: int) -> None:
        user = [] if _IS_ROOT else ["--user", "--preserve-credentials"]
        self.inside = ["nsenter", "--target", str(pid), "--net", *user]
        """What a command begins with to be in it."""


@contextmanager
def network() -> Iterator[Network]:
    """One, as long as the context lasts."""
    user = [] if _IS_ROOT else ["--user", "--map-root-user"]
    command = ["unshare", "--net", *user, sys.executable, "-c", _UP]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None and keeper.stdout.readline() == "up\n", "no network namespace can be had"
        try:
            yield Network(keeper.pid)
        finally:
            keeper.communicate("\n", timeout=10)


def prepare(root: Path) -> None:
    """Make the places at which the base is mounted."""
    for path in _SYSTEM:
        if Path(path).is_symlink():
            (root / path.lstrip("/")).symlink_to(os.readlink(path))
    for path in (*_KERNEL, "/root", "/tmp", *(target for _, target in _base() if not target.startswith("/usr/"))):
        (root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)


def command(
    root: Path,
    words: Sequence[str],
    env: Mapping[str, str],
    folder: str = "/",
    user: int = 0,
    network: Network | None = None,
) -> list[str]:
    """The command that runs `words` there with that environment and no other. A user that is not root finds all of it
    read-only, but for an empty /tmp."""
    script = ["set -e", "mount --make-rprivate /", f"cd {shlex.quote(str(root))}", "mount --bind . .", 'cd "$PWD"']
    script += [line for source, target in _base() for line in _shown(source, target)]
    script += [f"mount --rbind {path} .{path}" for path in _KERNEL]
    if user:
        script += ["mount -t tmpfs -o mode=1777 tmpfs tmp", "mount -o remount,bind,ro ."]
    # Nothing stays between this test and the process: a signal to the one reaches the other.
    variables = [f"{name}={value}" for name, value in env.items()]
    script.append("exec " + shlex.join([*_chroot(user), "env", "-i", "-C", folder, *variables, *words]))
    own = [] if _IS_ROOT or network else ["--user", "--map-root-user"]
    return [*(network.inside if network else ()), "unshare", "--mount", *own, "sh", "-c", "\n".join(script)]


def _base() -> list[tuple[str, str]]:
    """What is shown where. The interpreter also under its own name, which its libraries and scripts know."""
    own = sys.base_prefix
    system = [(path, path) for path in _SYSTEM if _is_folder(path)]
    interpreter = [] if own in ("/usr", "/usr/local") else [(own, "/usr/local")]
    return [*system, *interpreter, *([] if own.startswith("/usr") else [(own, own)])]


def _shown(source: str, target: str) -> list[str]:
    """Read-only, so that no step changes this machine."""
    place = shlex.quote(f".{target}")
    return [f"mount --bind {shlex.quote(source)} {place}", f"mount -o remount,bind,ro {place}"]


def _chroot(user: int) -> list[str]:
    if not user:
        return ["chroot", "."]
    if _IS_ROOT:
        return ["chroot", f"--userspec={user}:{user}", "--groups=", "."]
    as_user = ["unshare", "--user", f"--map-user={user}", f"--map-group={user}", "--keep-caps", "chroot", "."]
    return [*as_user, "setpriv", "--ambient-caps=-all", "--inh-caps=-all"]


def _is_folder(path: str) -> bool:
    return Path(path).is_dir() and not Path(path).is_symlink()
