"""ruff's security rules look at all that ships, and see what they are relied on to see (decision 041)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# One line for each kind of hole that the review of a change might miss, and the rule that names it.
BAD = """
import hashlib, pickle, random, socket, ssl, subprocess, tarfile, tempfile, xml.sax
import httpx, jinja2, yaml
from http import client

pickle.loads(b"")  # S301
hashlib.md5(b"")  # S324
random.randrange(5)  # S311
tempfile.mktemp()  # S306
eval("1")  # S307
exec("1")  # S102
subprocess.run("ls " + str(1), shell=True)  # S602
subprocess.Popen(["sh"])  # S607
httpx.get("https://host", verify=False)  # S501
ssl.wrap_socket(socket.socket(), ssl_version=ssl.PROTOCOL_TLSv1)  # S502
ssl._create_unverified_context()  # S323
yaml.load("")  # S506
jinja2.Environment()  # S701
xml.sax.parseString(b"", None)  # S317
tarfile.open("a").extractall("b")  # S202
socket.socket().bind(("0.0.0.0", 80))  # S104
password = "hunter2"  # S105
open("/tmp/framehold")  # S108
try:
    pass
except Exception:  # S110
    pass
name = "\u202e"  # PLE2502
"""


def found(path: str, text: str) -> set[tuple[int, str]]:
    """What `ruff check` says of a file of this text at this path: each line with its rule."""
    command = [
        str(Path(sys.executable).with_name("ruff")),
        "check",
        "--stdin-filename",
        path,
        "--output-format",
        "json",
        "-",
    ]
    done = subprocess.run(command, input=text, cwd=ROOT, capture_output=True, text=True, check=False)
    return {(each["location"]["row"], each["code"]) for each in json.loads(done.stdout)}


@pytest.mark.parametrize(
    "path",
    [
        "core/framehold_core/new.py",
        "store/framehold_store/new.py",
        "router/framehold_router/new.py",
        "node/framehold/engine/new.py",
        "cli/framehold_cli/new.py",
        "release/new.py",
        "helm/new.py",
        "examples/new.py",
    ],
)
def test_a_known_kind_of_hole_is_found(path: str) -> None:
    """In every room that ships, by the rule of its line."""
    lines = enumerate(BAD.splitlines(), 1)
    wanted = {(number, line.rpartition("# ")[2]) for number, line in lines if "# " in line}
    assert len(wanted) > 18 and wanted - found(path, BAD) == set()
