"""Asks OSV (osv.dev) for known holes in what the locks pin: `python -m release.audit`, in `make nightly`.

One question carries all packages (https://google.github.io/osv.dev/post-v1-querybatch/), and old releases whose holes
have been known for years. An answer that does not name these says nothing about the others: then, as without an answer,
nothing was audited, and that is a failure. (pip-audit passes where its index knows none of the packages.)"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import httpx2

from release import Refused, locks

OSV = "https://api.osv.dev"
NPM = ("tests/conformance/package-lock.json", "loadtest/framehold_loadtest/peers/npm/package-lock.json")
"""The locks of npm. The first one has the libraries of the dashboard."""


class Pin(NamedTuple):
    """A package as a lock has it."""

    ecosystem: str
    name: str
    version: str


CONTROLS = (Pin("PyPI", "jinja2", "2.4.1"), Pin("npm", "minimist", "0.0.8"))


def main(address: str = OSV) -> int:
    """Print what is known. 0: no hole in any lock; 1: a hole, or nobody said."""
    locked = pinned()
    try:
        found = holes(sorted({pin for pins in locked.values() for pin in pins}), address)
    except Refused as why:
        print(f"audit: {why}", file=sys.stderr)
        return 1
    for lock, pins in locked.items():
        for pin in pins:
            for hole in found.get(pin, ()):
                print(f"{lock}: {pin.name} {pin.version}: https://osv.dev/vulnerability/{hole}", file=sys.stderr)
    known = sum(map(len, locked.values()))
    print(f"{known} packages of {len(locked)} locks were looked up; {len(found) or 'none'} with a known hole")
    return int(bool(found))


def pinned() -> dict[str, list[Pin]]:
    """The packages of each lock, by the path of its file."""
    found = {}
    for name in locks.requirements():
        lock = str(locks.path(name).relative_to(locks.ROOT))
        found[lock] = [Pin("PyPI", *pin) for pin in locks.pins(name).items()]
    for lock in NPM:
        packages = json.loads((locks.ROOT / lock).read_text("utf-8"))["packages"]
        names = {folder.rpartition("node_modules/")[2]: package for folder, package in packages.items() if folder}
        found[lock] = [Pin("npm", name, package["version"]) for name, package in names.items()]
    return found


def holes(pins: Sequence[Pin], address: str) -> Mapping[Pin, Sequence[str]]:
    """The ids of the known holes of each package that has one.

    Raises:
        Refused: OSV can't be asked, or its answer is none."""
    asked = [*CONTROLS, *pins]
    queries = [{"package": {"name": pin.name, "ecosystem": pin.ecosystem}, "version": pin.version} for pin in asked]
    try:
        reply = httpx2.post(f"{address}/v1/querybatch", json={"queries": queries}, timeout=60).raise_for_status()
        ids = [[hole["id"] for hole in result.get("vulns", ())] for result in reply.json()["results"]]
        found = dict(zip(asked, ids, strict=True))
    except (httpx2.HTTPError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(_could_not_ask(address, repr(error))) from None
    for control in CONTROLS:
        if not found.pop(control):
            raise Refused(_could_not_ask(address, f"it knows no hole of {control.name} {control.version}"))
    return {pin: ids for pin, ids in found.items() if ids}


def _could_not_ask(address: str, why: str) -> str:
    return f"could not ask {address} ({why}); nothing is known of any package; ask again where it can be reached"


if __name__ == "__main__":
    sys.exit(main())
