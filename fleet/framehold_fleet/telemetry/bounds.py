"""The bounds of the histograms, in seconds or bytes. Router and node use the same, so that their series can be
summed."""

from __future__ import annotations

HOP = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""One hop: a read or write of the store, a turn of the event loop, a request within the fleet."""
ROUND = (*HOP, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""How long a request waits for its reply."""
PARK = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
"""How long a person takes to answer."""
EXPIRY = (60.0, 300.0, 900.0, 1800.0, 3600.0, 14400.0)
"""In how much time the tokens of parked calls expire."""
BYTES = tuple(float(1024 * 4**power) for power in range(9))
"""1 KiB to 64 MiB."""
FAILOVER = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0)
"""From a node's death until its calls go on: with the longest lease, 300 s, twice that is still told from more."""
