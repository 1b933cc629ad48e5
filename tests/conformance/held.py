"""The example server as one Framehold node."""

from __future__ import annotations

import framehold
from tests.conformance.server import mcp

app = framehold.asgi(mcp)
