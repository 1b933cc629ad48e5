"""The office as a part of another app, under /office: `python -m tests.fleet.day.mounted ... --port PORT`."""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

import framehold
from tests.fleet.day.office import mcp

PATH = "/office"


def main() -> None:
    """Serve, and say where, as `framehold node` does."""
    port = int(sys.argv[-1])
    office = framehold.asgi(mcp)
    app = Starlette(routes=[Mount(PATH, office)], lifespan=office.lifespan)
    print(f"a node serves http://127.0.0.1:{port}{PATH}/mcp, mounted", flush=True)
    uvicorn.run(app, port=port, log_level="warning")


if __name__ == "__main__":
    main()
