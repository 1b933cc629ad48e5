"""The relay that stands for a store that is far away."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from framehold_loadtest.local.delay import delaying

pytestmark = pytest.mark.load

LATE = 0.1
TICK = 0.001
"""The relay's event loop counts whole milliseconds: on each way it may be early by one."""


def echo(listener: socket.socket) -> None:
    link, _ = listener.accept()
    with link:
        while data := link.recv(1000):
            link.sendall(data)


def test_a_round_trip_takes_longer_and_what_is_sent_keeps_its_order(tmp_path: Path) -> None:
    """Pieces travel at the same time: many take no longer than one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=echo, args=(listener,), daemon=True).start()
        relay, port = delaying(tmp_path, listener.getsockname()[1], LATE)
        assert relay is not None
        relay.start()
        try:
            relay.announced()
            with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
                began, wanted = time.monotonic(), b"".join(b"%d " % number for number in range(50))
                for number in range(50):
                    link.sendall(b"%d " % number)
                seen = b""
                while len(seen) < len(wanted):
                    seen += link.recv(1000)
                gone = time.monotonic() - began
        finally:
            relay.kill()
    assert seen == wanted
    assert LATE - 2 * TICK <= gone < 10 * LATE


def test_a_store_that_is_near_has_no_relay(tmp_path: Path) -> None:
    assert delaying(tmp_path, 6379, 0.0) == (None, 6379)
