"""The booking server on a node without an output gate: its questions leave before they are written."""

from __future__ import annotations

from framehold_loadtest.served.booking import mcp as booking
from tests.sim.mutations import mutated

mutation = mutated("gate-off")
"""Kept, because it undoes itself where nobody has it."""
mutation.__enter__()
mcp = booking
