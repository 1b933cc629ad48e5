"""A chosen port belongs to the process that chose it: to its server, and to nobody else who looks for one."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from framehold_cli.local import ports
from tests.kit.processes import environment

ANOTHER = """
from framehold_cli.local import ports
ports._CHOSEN_FROM = range({port}, {port} + 1)
ports._TRIES = 1
print(ports.free())
"""


def chosen_by_another(port: int) -> int:
    """What another process gets that may choose this port, or any that the system gives."""
    command = [sys.executable, "-c", ANOTHER.format(port=port)]
    return int(subprocess.run(command, env=environment(), capture_output=True, check=True, text=True).stdout)


def listening(port: int) -> socket.socket:
    """A server as redis-server, HAProxy, asyncio and Node open one: with SO_REUSEADDR."""
    return socket.create_server((ports.HOST, port))


def test_another_process_does_not_choose_it() -> None:
    """Neither before its server listens, nor while it does, nor while it restarts."""
    port = ports.free()
    assert chosen_by_another(port) != port
    with listening(port):
        assert chosen_by_another(port) != port
    assert chosen_by_another(port) != port
    listening(port).close()


def test_it_is_chosen_again_when_its_process_has_ended() -> None:
    port = ports.free()
    ports._HELD.pop().close()
    assert chosen_by_another(port) == port == chosen_by_another(port)


def test_nobody_is_answered_there_before_the_server_listens() -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((ports.HOST, ports.free()))


def test_few_ports_are_held() -> None:
    for _ in range(2 * ports._MOST_HELD):
        ports.free()
    assert len(ports._HELD) == ports._MOST_HELD


def test_a_process_that_chose_one_ends_without_a_warning() -> None:
    """The socket that held it is closed, and not left to the end of the interpreter."""
    code = "from framehold_cli.local import ports; ports.free()"
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", code]
    ended = subprocess.run(command, env=environment(), capture_output=True, check=True, text=True)
    assert (ended.stdout, ended.stderr) == ("", "")
