"""The inputs that each fuzzer begins with: what this release writes, and what earlier ones wrote."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from tests.compat import states
from tests.compat.dumps import FIXTURES

from .. import streams
from .targets import LONGEST, TARGETS


def _texts(name: str) -> list[str]:
    """What is stored or sent, of one form."""
    return [item["is"] for file in FIXTURES.glob(f"*/{name}.json") for item in json.loads(file.read_text())]


def _states() -> list[str]:
    return [json.loads(states._codec.unseal(text))["s"] for text in _texts("tokens")]


def _records() -> list[bytes]:
    found = list[bytes]()
    for file in FIXTURES.glob("*/calls/*.json"):
        dump = json.loads(file.read_text())
        fields = [text for pair in dump["record"].items() if pair[0] != "outcome" for text in pair]
        found.append("\n".join(("ok1", *fields, "--", *dump["journal"])).encode())
    return found


def _entries() -> list[bytes]:
    calls = [json.loads(file.read_text())["journal"] for file in FIXTURES.glob("*/calls/*.json")]
    texts = [*_texts("entries"), *(item for journal in calls for item in journal)]
    return [bytes((json.loads(text)[1] % 256,)) + text.encode() for text in texts]


def _leases() -> list[str]:
    return [text for file in FIXTURES.glob("*/leases.json") for text in json.loads(file.read_text()).values()]


_SAMPLE: dict[str, Any] = {
    "nodes": {"a": {"rounds": 1.5, "p50": 0.1, "p99": 0.2, "parked": 1, "rss": 1000}},
    "tools": {"ask": {"parked": 1}},
    "release": "0.1.0",
}
_NAMES = ("http://127.0.0.1:8080", "http://[::1]:80/", "http://a.b", '[1,1.5,"somebody","because"]')
_VALUES = (
    'json\n{"a":[1,2.5,null,true,"\u00fc"]}', 'raised\n{"kind":"a.B","text":"no"}', "pickle\n\x80\x05K\x01.",
    "none\n", 'raised-own\n{"class":"LookupError","args":["no"],"with":{},"notes":[]}',
    "raised-pickle\n\x80\x05K\x01.",
)  # fmt: skip


def _seals() -> list[bytes]:
    return [base64.b64decode(json.loads(text)[2]) for text in _texts("seals")]


def of(name: str) -> list[bytes]:
    """The seeds of one target."""
    found: dict[str, list[Any]] = {
        "reader": [bytes((seed % 256,)) + b"".join(streams.drawn(seed)) for seed in range(300)],
        "tokens": [*_texts("tokens"), *_texts("sagas")],
        "claims": _states(),
        "records": _records(),
        "entries": _entries(),
        "sagas": [*_texts("sagas"), json.dumps(["ask", {"a": 1}, None, {"q": 1}, None])],
        "leases": _leases(),
        "names": [*_NAMES, *_texts("sessions"), *_texts("stats")],
        "figures": [json.dumps(_SAMPLE)],
        "values": [*_VALUES],
        "seals": _seals(),
    }
    assert found.keys() == TARGETS.keys()
    return [item if isinstance(item, bytes) else item.encode("utf-8", "surrogateescape") for item in found[name]]


def stretched(seed: bytes) -> list[bytes]:
    """A seed with one of its parts, or something else, again and again in its middle: readers take as much longer as it
    is longer."""
    at = len(seed) // 2
    units = (seed[:1], seed[-1:], seed[at : at + 1], seed, b"[", b'{"a":', b"\\", b"\r\n", b"1", b".", b" ", b"\xff")
    return [(seed[:at] + unit * (LONGEST // len(unit)) + seed[at:])[:LONGEST] for unit in units if unit]


def write(name: str, folder: Path) -> None:
    """Write the seeds of one target, a file each."""
    known = of(name)
    long = [data for seed in known[:5] for data in stretched(seed)]
    for number, data in enumerate(known + long):
        (folder / f"{number}").write_bytes(data)
