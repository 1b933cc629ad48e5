"""`python -m tests.sim.under <mutation> <test> ...`: run tests under a mutation. The result is that of pytest."""

from __future__ import annotations

import sys

import pytest

from .mutations import mutated

if __name__ == "__main__":
    with mutated(sys.argv[1]):
        sys.exit(pytest.main(["-q", "-x", "-n", "0", "-p", "no:cacheprovider", *sys.argv[2:]]))
