"""The same example server as the SDK serves it, without Framehold: what 2025-11-25 is measured against.

Its tools of 2026-07-28 ask by plain awaits, which the SDK alone can't serve there; on 2025-11-25 it serves them all.
"""

from __future__ import annotations

from tests.conformance.server import mcp

app = mcp.streamable_http_app()
