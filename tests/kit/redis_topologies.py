"""More than one redis-server: three sentinels over a master and its replica, and a cluster of three primaries.

Plain classes: `start`, then what their methods do, then `remove`, which ends every child by its pid. All methods block:
a test whose event loop must go on meanwhile calls them with `asyncio.to_thread`.
"""

import contextlib
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import redis

from framehold_cli.local.ports import free as free_port
from tests.kit.processes import Child
from tests.kit.redis_server import RedisServer, tls_client, tls_settings, wait_for

SLOTS = 16384


class SentinelTrio:
    """A master and a replica under three sentinels that hold the master for dead after half a second."""

    service = "fleet"

    def __init__(self, *, appendonly: bool = False, tls: Path | None = None) -> None:
        self._tls = tls
        quick = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
        self.servers = tuple(RedisServer(appendonly=appendonly, options=quick, tls=tls) for _ in range(2))
        self.sentinels = tuple(Sentinel(tls) for _ in range(3))

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis{'' if self._tls is None else 's'}+sentinel://{hosts}/{self.service}"

    @property
    def master(self) -> RedisServer:
        """The one that most sentinels name."""
        named = sorted(port for port in (sentinel.master(self.service) for sentinel in self.sentinels) if port)
        assert named, "no sentinel answers"
        return next(server for server in self.servers if server.port == named[len(named) // 2])

    @property
    def replica(self) -> RedisServer:
        """The other one, dead or alive."""
        return next(server for server in self.servers if server is not self.master)

    def start(self) -> None:
        """Start, and return when a fail-over would succeed."""
        first, second = self.servers
        for server in self.servers:
            server.start()
        with second.client() as client:
            client.replicaof("127.0.0.1", first.port)
        for sentinel in self.sentinels:
            others = [other for other in self.sentinels if other is not sentinel]
            sentinel.start(self.service, first.port, second.port, others)
        wait_for(lambda: replicates(second), "the replica has its first copy")
        for sentinel in self.sentinels:
            wait_for(partial(sentinel.ready, self.service), "a sentinel sees the others and the replica", sentinel)

    def kill_master(self) -> RedisServer:
        """SIGKILL the master and return at once. Gives the server: `start` brings it back, as a replica after a
        while."""
        master = self.master
        master.kill()
        return master

    def await_master(self, former: RedisServer) -> RedisServer:
        """Wait until all sentinels name another master than `former`, and it takes writes."""
        wait_for(
            lambda: all(sentinel.master(self.service) not in (0, former.port) for sentinel in self.sentinels),
            "the sentinels name another master",
        )
        wait_for(lambda: role(self.master) == "master", "the new master takes writes")
        return self.master

    def failover(self) -> RedisServer:
        """Make the replica the master while the old one lives, as operators do; returns the new one. A sentinel turns
        the old one into a replica, and kills its clients, within some seconds."""
        former = self.master
        wait_for(lambda: replicates(self.replica), "the replica is up to date")
        wait_for(lambda: self.sentinels[0].promote(self.service), "a sentinel begins a fail-over")
        return self.await_master(former)

    @contextlib.contextmanager
    def lagging(self) -> Iterator[None]:
        """Meanwhile the replica gets nothing: it forgets what the master acknowledges now, if the master dies before
        the end. For less than four seconds: after five, sentinels hold the replica for too old to be a master."""
        replica = self.replica
        with replica.client() as client:
            # A master without a password refuses whoever brings one. (Paused, the replica would only read it later.)
            client.config_set("masterauth", "nobody's")
            client.config_set("repl-timeout", 60)
        with self.master.client() as client:
            client.client_kill_filter(_type="replica")
        wait_for(lambda: not replicates(replica), "the replica has lost its master")
        try:
            yield
        finally:
            with contextlib.suppress(redis.RedisError), replica.client() as client:
                client.config_set("masterauth", "")

    def remove(self) -> None:
        children: tuple[Sentinel | RedisServer, ...] = (*self.sentinels, *self.servers)
        for child in children:
            child.remove()


class Sentinel(Child):
    """One sentinel, told of the others and the replica from the start: finding them by itself would take seconds."""

    def __init__(self, tls: Path | None = None) -> None:
        self._tls = tls
        self.port = free_port()
        self.name = secrets.token_hex(20)
        self._folder = Path(tempfile.mkdtemp(prefix="framehold-sentinel-"))
        binary = shutil.which("redis-server")
        assert binary
        super().__init__([binary, str(self._config), "--sentinel"], self._folder / "log")

    @property
    def _config(self) -> Path:
        return self._folder / "sentinel.conf"

    def start(self, service: str, master: int, replica: int, others: "list[Sentinel]") -> None:
        port = [f"port {self.port}"]
        if self._tls is not None:
            port = ["port 0", f"tls-port {self.port}", *map(" ".join, tls_settings(self._tls).items())]
        lines = [
            *port,
            "bind 127.0.0.1",
            f"dir {self._folder}",
            f"sentinel myid {self.name}",
            f"sentinel monitor {service} 127.0.0.1 {master} 2",
            f"sentinel down-after-milliseconds {service} 500",
            f"sentinel failover-timeout {service} 2000",
            f"sentinel known-replica {service} 127.0.0.1 {replica}",
            *(f"sentinel known-sentinel {service} 127.0.0.1 {other.port} {other.name}" for other in others),
        ]
        self._config.write_text("\n".join(lines) + "\n")
        self.launch()

    def client(self) -> "redis.Redis":
        settings: dict[str, Any] = {"host": "127.0.0.1", "port": self.port, "protocol": 2, "socket_timeout": 1.0}
        return redis.Redis(**settings, **tls_client(self._tls), decode_responses=True)

    def master(self, service: str) -> int:
        """The port of the master that it names; 0 where it doesn't answer."""
        with contextlib.suppress(redis.RedisError), self.client() as client:
            return int(client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", service)[1])
        return 0

    def ready(self, service: str) -> bool:
        with self.client() as client:
            (replica,) = client.sentinel_slaves(service)
            sentinels = client.sentinel_sentinels(service)
            healthy = replica["master-link-status"] == "ok" and replica["flags"] == "slave"
            return healthy and all(other["flags"] == "sentinel" for other in sentinels)

    def promote(self, service: str) -> bool:
        """Begin a fail-over; False where it is too early for another, or the replica isn't known to be well."""
        with self.client() as client:
            try:
                client.execute_command("SENTINEL FAILOVER", service)
            except redis.ResponseError:
                return False
            return True

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def role(server: RedisServer) -> str:
    with server.client() as client:
        return str(client.info("replication")["role"])


def replicates(server: RedisServer) -> bool:
    """Whether it is a replica that hears its master."""
    with server.client() as client:
        return bool(client.info("replication").get("master_link_status") == "up")


class ClusterTrio:
    """A Redis Cluster of three primaries, without replicas until `add_replica`."""

    def __init__(self, *, tls: Path | None = None) -> None:
        self._tls = tls
        self._names = [secrets.token_hex(20) for _ in range(3)]
        self._buses = [free_port() for _ in range(3)]
        self.servers = [RedisServer(options=_clustered(bus), tls=tls) for bus in self._buses]

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self.servers)
        return f"redis{'' if self._tls is None else 's'}+cluster://{hosts}"

    def start(self) -> None:
        """Start, and return when each server serves its third of the slots. They are born as a cluster: their first
        nodes.conf says so, which saves the time of meeting."""
        for own, server in enumerate(self.servers):
            lines = [self._line(number, own) for number in range(3)]
            lines.append("vars currentEpoch 3 lastVoteEpoch 0")
            (server.folder / "nodes.conf").write_text("\n".join(lines) + "\n")
            server.start()
        wait_for(
            lambda: all(cluster_info(server)["cluster_state"] == "ok" for server in self.servers),
            "the cluster is whole",
        )

    def _line(self, number: int, own: int) -> str:
        place = f"127.0.0.1:{self.servers[number].port}@{self._buses[number]}"
        slots = f"{SLOTS * number // 3}-{SLOTS * (number + 1) // 3 - 1}"
        return f"{self._names[number]} {place} {'myself,' * (number == own)}master - 0 0 {number + 1} connected {slots}"

    def slot(self, key: str) -> int:
        with self.servers[0].client() as client:
            return int(client.execute_command("CLUSTER KEYSLOT", key))

    def owner(self, key: str) -> int:
        """The number of the server that holds the key's slot, by its own account."""
        slot = self.slot(key)
        for number, server in enumerate(self.servers):
            with server.client() as client:
                held = client.execute_command("CLUSTER SLOTS")
            if any(first <= slot <= last and primary[1] == server.port for first, last, primary, *_ in held):
                return number
        raise AssertionError(f"nobody holds slot {slot}")

    def begin_move(self, key: str, to: int) -> int:
        """Open the key's slot for its move to server `to`; what isn't at its old place is looked for at the new one.
        Gives the number of the old owner."""
        slot, source = self.slot(key), self.owner(key)
        with self.servers[to].client() as client:
            client.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", self._names[source])
        with self.servers[source].client() as client:
            client.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", self._names[to])
        return source

    def carry_keys(self, key: str, source: int, to: int, at_once: int = 100) -> None:
        """Carry over the keys of the slot that was opened, some at a time."""
        slot, port = self.slot(key), self.servers[to].port
        with self.servers[source].client() as client:
            while keys := client.execute_command("CLUSTER GETKEYSINSLOT", slot, at_once):
                client.execute_command("MIGRATE", "127.0.0.1", port, "", 0, 5000, "KEYS", *keys)

    def end_move(self, key: str, source: int, to: int) -> None:
        """Give the slot to `to`; every server knows at once."""
        slot = self.slot(key)
        for number in (to, source, *({0, 1, 2} - {to, source})):
            with self.servers[number].client() as client:
                client.execute_command("CLUSTER SETSLOT", slot, "NODE", self._names[to])

    def move_slot(self, key: str, to: int | None = None) -> int:
        """Move the slot of `key`, with all that is in it, to server `to` (by default the next one), as a reshard does.
        Gives the number of its new owner."""
        to = (self.owner(key) + 1) % 3 if to is None else to
        source = self.begin_move(key, to)
        self.carry_keys(key, source, to)
        self.end_move(key, source, to)
        return to

    def add_replica(self, of: int) -> RedisServer:
        """Start a replica of server `of`, and return when it has a copy and all know of it."""
        bus = free_port()
        replica = RedisServer(options=_clustered(bus), tls=self._tls)
        self.servers.append(replica)
        replica.start()
        with replica.client() as client:
            client.execute_command("CLUSTER MEET", "127.0.0.1", self.servers[0].port, self._buses[0])
            wait_for(lambda: cluster_info(replica)["cluster_known_nodes"] == "4", "the replica knows the cluster")
            wait_for(lambda: client.execute_command("CLUSTER REPLICATE", self._names[of]), "it knows its primary")
        wait_for(lambda: replicates(replica), "the replica has its first copy")
        wait_for(
            lambda: all(cluster_info(server)["cluster_known_nodes"] == "4" for server in self.servers),
            "all know the replica",
        )
        # Names travel by gossip, slots only in a server's own messages. A replica takes over the slots that it knows.
        wait_for(lambda: cluster_info(replica)["cluster_slots_assigned"] == str(SLOTS), "the replica knows all slots")
        return replica

    def take_over(self, replica: RedisServer) -> None:
        """Make it the primary without asking anyone, as an operator does who knows that the old one is dead."""
        with replica.client() as client:
            client.execute_command("CLUSTER FAILOVER", "TAKEOVER")
        wait_for(lambda: role(replica) == "master", "the replica takes over")

    def remove(self) -> None:
        for server in self.servers:
            server.remove()


def _clustered(bus: int) -> tuple[str, ...]:
    quick = ("--repl-diskless-sync-delay", "0")
    return ("--cluster-enabled", "yes", "--cluster-node-timeout", "5000", "--cluster-port", str(bus), *quick)


def cluster_info(server: RedisServer) -> dict[str, str]:
    with server.client() as client:
        info: dict[str, str] = client.execute_command("CLUSTER INFO")
        return info
