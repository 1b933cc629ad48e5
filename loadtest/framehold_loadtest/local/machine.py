"""The machine that the figures were measured on: processor, versions, commit, and its load before the run."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import time
from pathlib import Path

from framehold_loadtest.local.listeners import ROOT, Cores

_PACKAGES = ("framehold", "mcp", "pydantic", "uvicorn", "uvloop", "httptools", "aiohttp", "redis", "hiredis")


def describe(cores: Cores) -> dict[str, str]:
    """Facts by their label, for the head of the report."""
    servers = _server("redis-server", "--version", r"v=(\S+)"), _server("haproxy", "-v", r"version (\S+)")
    shared = " (the same one: ratios are distorted)" if cores.server == cores.load else ""
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": ", ".join([*(f"{name} {_version(name)}" for name in _PACKAGES), *servers]),
        "commit": _commit(),
        "pinning": f"measured servers on core {cores.server}, load, Redis and stub nodes on core {cores.load}{shared}",
        "load before": f"{os.getloadavg()[0]:.2f} (1 minute; other work on these cores blurs every figure)",
        "date": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def _server(name: str, option: str, number: str) -> str:
    """A program of the system, with the number that follows in its own words."""
    binary = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    found = re.search(number, _output([binary, option])) if binary else None
    return f"{name} {found[1]}" if found else f"{name} (not installed)"


def _commit() -> str:
    commit = _output(["git", "rev-parse", "--short", "HEAD"])
    if not commit:
        return "none"
    return commit + (" with uncommitted changes" if _output(["git", "status", "--porcelain"]) else "")


def _output(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
