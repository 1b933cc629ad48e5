"""The tables of doors and credentials in the threat model name each place of what ships that listens, and each that
sends a credential.

The source tells what there is: a place that no row names is as red as a row whose place is gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.structure.rooms import ROOT
from tests.structure.sites import (
    CONFIGURED,
    CREDENTIALS,
    DOORS,
    IN_CONFIGURATIONS,
    IN_SCRIPTS,
    found,
    pieces,
    shipped,
)

PAGE = (ROOT / "docs/threat-model.md").read_text()
_PLACE = re.compile(r"`(framehold[\w.]*)(?::([\w.]+))?`")
_FILE = re.compile(r"`([\w./-]+\.(?:cfg|js|tpl|ya?ml)|\w+/Dockerfile)`")


def named(heading: str) -> set[str]:
    """The places that the last column of a table names: `module:function`, a module alone for what is in no function,
    or a file of another kind."""
    section = re.split(rf"(?m)^## {heading}$", PAGE)[1].partition("\n## ")[0]
    cells = [line.split("|")[-2] for line in section.splitlines() if line.startswith("|")]
    places = {(module, name) for cell in cells for module, name in _PLACE.findall(cell)}
    return {f"{module}:{name}".rstrip(":") for module, name in places} | {*_FILE.findall("\n".join(cells))}


def configured(what: re.Pattern[str] = CONFIGURED) -> Iterator[str]:
    """The files of programs, images and platforms that open a port, or in which something else is found."""
    for places in ("examples/**/*", "helm/framehold/templates/**/*", "images/*", "*/Dockerfile", "*"):
        for path in ROOT.glob(places):
            is_one = path.name == "Dockerfile" or path.suffix in (".cfg", ".tpl", ".yaml", ".yml", ".conf")
            if is_one and what.search(path.read_text()):
                yield str(path.relative_to(ROOT))


def sending() -> Iterator[str]:
    """The files that have a load balancer send a credential, or a pod derive one, and the scripts of pages that send
    one."""
    yield from configured(IN_CONFIGURATIONS)
    for path in (ROOT / "router/framehold_router/dashboard/assets").rglob("*.js"):
        if "vendor" not in path.parts and IN_SCRIPTS.search(path.read_text()):
            yield str(path.relative_to(ROOT))


UNSEEN = {
    "framehold_router.routing.relay:RequestRelay",
    "framehold.http.forward:Forward",
    "framehold_fleet.http_client.node_connection:NodeConnection",
    "framehold_cli.commands:keys_plane",
    "framehold_cli.commands:keys_router",
    "framehold_cli.client.local_fleets:keep",
    "framehold_cli.local.welcome:Welcome._access",
}
"""What the tables name and no word tells: relays of what clients have sent, statements, which are made on the way, and
what is printed or written into a file."""


@pytest.mark.parametrize(
    ("heading", "what", "others"),
    [("Doors", DOORS, configured), ("Credentials that are sent", CREDENTIALS, sending)],
    ids=["doors", "credentials"],
)
def test_each_is_in_the_table(heading: str, what: re.Pattern[str], others: Callable[[], Iterator[str]]) -> None:
    """And each row has its places in the source."""
    assert sorted((found(what) | set(others())) ^ named(heading) - UNSEEN) == []


def test_what_no_word_tells_is_there() -> None:
    modules = dict(shipped())
    assert all(name in pieces(modules[module]) for module, _, name in (place.partition(":") for place in UNSEEN))


SAMPLES = {
    DOORS: [
        "from aiohttp import web\nasync def f(runner): await web.TCPSite(runner, port=1).start()",
        "from uvicorn.server import Server as Base\nclass f(Base): ...",
        "from aiohttp.web import NamedPipeSite as Way\nasync def f(r): await Way(r, 'p').start()",
        "async def f(loop, make, number): await loop.create_server(make, sock=number)",
        "import asyncio\nasync def f(h): await asyncio.start_unix_server(h, 'p')",
        "import socket\ndef f(number): return socket.socket(fileno=number)",
        "def f(s): s.bind(('', 1))",
        "from http.server import ThreadingHTTPServer\ndef f(h): ThreadingHTTPServer(('', 1), h)",
        "def f(server): server.run(transport='streamable-http')",
        "import subprocess\ndef f(): subprocess.Popen(['/usr/bin/redis-server', '--port', '1'])",
    ],
    CREDENTIALS: [
        "def f(http, x): http.get('http://h', params={'t': x.token})",
        "def f(http, word): http.get(f'http://h/p?access_token={word}')",
        "def f(request, x): request.headers['Authorization'] = x",
        "def f(headers, x): headers.append((b'authorization', x))",
        "def f(x): return f'Bearer {x}'",
        "def f(http, x): http.get('http://h', auth=('any', x))",
        "def f(password): return f'redis://user:{password}@h/0'",
        "import redis\ndef f(url): return redis.from_url(url)",
        "import os\ndef f(x): return {**os.environ, 'FRAMEHOLD_KEYS': x}",
    ],
}
HARMLESS = [
    "import asyncio\nasync def f(): await asyncio.open_connection('h', 1)",
    "import uvicorn\ndef f(config: uvicorn.Config) -> uvicorn.Server: ...",
    "def f(server): server.run(transport='stdio')",
    "def f(http): http.get('http://h', headers={'Accept': 'text/html'})",
    "def f(request): return request.headers.get('Authorization')",
    "def f(host): return f'http://{host}/mcp?page={host}'",
]


@pytest.mark.parametrize(("what", "text"), [(what, text) for what, texts in SAMPLES.items() for text in texts])
def test_one_is_found_where_it_is(what: re.Pattern[str], text: str) -> None:
    assert {name for name, piece in pieces(text).items() if what.search(piece)} == {"f"}


def test_what_is_none_is_not_taken_for_one() -> None:
    seen = [
        text for text in HARMLESS for piece in pieces(text).values() if DOORS.search(piece) or CREDENTIALS.search(piece)
    ]
    assert seen == []
