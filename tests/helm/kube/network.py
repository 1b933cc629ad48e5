"""The cluster's network: a bridge, and an address of its own for each pod, never given twice.

10.244.0.1      this process, as the machine that all pods run on
10.244.x.y      pods
10.96.0.x       Services, and the DNS server: addresses of the machine, so that it can stand in for kube-proxy
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess

MACHINE, DNS = "10.244.0.1", "10.96.0.10"


class Network:
    """The bridge, and whatever is plugged in. Names are those of network namespaces."""

    def __init__(self) -> None:
        self._pods, self._services = itertools.count(2), itertools.count(11)

    async def open(self) -> None:
        """Make the bridge. /run/netns is a folder of this mount namespace alone from then on."""
        subprocess.run(["mkdir", "-p", "/run/netns"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run/netns"], check=True)
        await _ip(
            # Without an address of its own it takes that of some port: a pod's end would make the others wait for ARP.
            "link add pods address 02:00:0a:f4:00:01 type bridge",
            "link set pods up",
            f"address add {MACHINE}/16 dev pods",
            f"address add {DNS}/32 dev pods",
        )

    async def plug(self, name: str) -> str:
        """A new network namespace on the bridge; its address."""
        number = next(self._pods)
        address = f"10.244.{number >> 8}.{number & 255}"
        await _ip(
            f"netns add {name}",
            f"link add v{number} master pods up type veth peer name eth0 netns {name}",
        )
        await _ip(
            "link set lo up",
            f"address add {address}/16 dev eth0",
            "link set eth0 up",
            f"route add default via {MACHINE}",
            within=name,
        )
        return address

    async def unplug(self, name: str) -> None:
        """Take it off; what is connected to it hears nothing more."""
        await _ip(f"netns delete {name}")

    async def service(self) -> str:
        """An address that stands for others."""
        address = f"10.96.0.{next(self._services)}"
        await _ip(f"address add {address}/32 dev pods")
        return address


async def _ip(*lines: str, within: str = "") -> None:
    # Beside the loop: the kernel lets such commands wait for seconds while it takes another namespace apart.
    command = ["ip", *(["-netns", within] if within else []), "-batch", "-"]
    child = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
    await child.communicate("\n".join(lines).encode())
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, [*command, *lines])
