"""The rooms: the packages of the repository, and their folders."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = {  # package -> its folder, from the lowest floor up
    "framehold_core": ROOT / "core",
    "framehold_store": ROOT / "store",
    "framehold_fleet": ROOT / "fleet",
    "framehold_router": ROOT / "router",
    "framehold": ROOT / "node",
    "framehold_cli": ROOT / "cli",
    "framehold_loadtest": ROOT / "loadtest",
}
LOADTEST = {"framehold_loadtest": ROOT / "loadtest"}
FRAMEHOLD = {package: folder for package, folder in ROOMS.items() if package not in LOADTEST}
"""The packages of the distribution `framehold`; those of `framehold-loadtest` are in LOADTEST."""
