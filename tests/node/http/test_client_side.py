"""The side of a node that clients connect to: what a router does there, the server of a node does too."""

from __future__ import annotations

import pytest

from tests.node.http.passing_app import before
from tests.router import test_front, test_smuggling
from tests.router.wires import both_loops

anyio_backend = both_loops
door = pytest.fixture(lambda: before)

for _module in (test_front, test_smuggling):
    for _name, _test in vars(_module).copy().items():
        if _name.startswith("test_") and "door" in getattr(_test, "__annotations__", {}):
            globals()[_name] = _test
