"""The tables of doors and credentials in the threat model name each place of what ships that listens, and each that
sends a credential.

The source tells what there is: a place that no row names is as red as a row whose place is gone. The finders are tested
over samples, which use what Framehold does not: other libraries, other spellings.
"""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Callable, Iterator

import pytest

from tests.structure.credentials import IN_CONFIGURATIONS, IN_SCRIPTS, credentials
from tests.structure.doors import CONFIGURED, doors
from tests.structure.references import File, forget, shipped
from tests.structure.rooms import ROOT

PAGE = (ROOT / "docs/threat-model.md").read_text()
_PLACE = re.compile(r"`(framehold[\w.]*)(?::([\w.]+))?`")
_FILE = re.compile(r"`([\w./-]+\.(?:cfg|js|tpl|ya?ml)|\w+/Dockerfile)`")
Found = Callable[[File], set[str]]


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """A garbage collector would look at all syntax trees again and again, and find nothing: it takes half of the
    time."""
    gc.disable()
    yield
    forget()
    gc.enable()


def rows(heading: str) -> list[str]:
    """The last cells of the table below a heading, which say where something is."""
    section = re.split(rf"(?m)^## {heading}$", PAGE)[1].partition("\n## ")[0]
    return [line.split("|")[-2] for line in section.splitlines() if line.startswith("|")]


def named(heading: str) -> set[str]:
    """The places that the table names: `module:function`, a module alone for what is in no function, or a file of
    another kind."""
    places = {(module, name) for cell in rows(heading) for module, name in _PLACE.findall(cell)}
    files = {file for cell in rows(heading) for file in _FILE.findall(cell)}
    return {f"{module}:{name}".rstrip(":") for module, name in places} | files


def found(what: Found) -> set[str]:
    """The places in all packages that ship."""
    return {f"{file.module}:{name}".rstrip(":") for file in shipped() for name in what(file)}


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


TABLES: tuple[tuple[str, Found, Callable[[], Iterator[str]]], ...] = (
    ("Doors", doors, configured),
    ("Credentials that are sent", credentials, sending),
)


UNSEEN = {
    "framehold_router.routing.relay:RequestRelay",
    "framehold.http.forward:Forward",
    "framehold_fleet.http_client.node_connection:NodeConnection",
    "framehold_cli.commands:keys_plane",
    "framehold_cli.commands:keys_router",
    "framehold_cli.client.local_fleets:keep",
}
"""What the tables name and the finders can't see: relays of what clients have sent, statements, which are made on the
way, and what is printed or written into a file."""


@pytest.mark.parametrize(("heading", "what", "others"), TABLES, ids=["doors", "credentials"])
def test_each_is_in_the_table(heading: str, what: Found, others: Callable[[], Iterator[str]]) -> None:
    """And each row has its places in the source."""
    there = found(what) | set(others())
    assert sorted(there ^ named(heading) - UNSEEN) == []


def test_what_no_finder_sees_is_there() -> None:
    modules = {file.module: file for file in shipped()}
    for module, _, name in (place.partition(":") for place in UNSEEN):
        assert name in defined(modules[module])


def defined(file: File) -> set[str]:
    """The functions and classes of a file, by their qualified names."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {f"{one.around}.{one.node.name}".lstrip(".") for one in file.places if isinstance(one.node, kinds)}


def sample(text: str) -> File:
    """A source file with one function, or with these lines."""
    return File("sample.py", "framehold.sample", text)


DOORS = {
    "an aiohttp site": "from aiohttp import web\nasync def f(runner): await web.TCPSite(runner, port=1).start()",
    "a site by another name": "from aiohttp.web import NamedPipeSite as Way\nasync def f(r): await Way(r, 'p').start()",
    "a site of a module's alias": "import aiohttp.web as w\nasync def f(app): await w._run_app(app); w.SockSite(1, 2)",
    "an aiohttp app that runs": "from aiohttp import web\ndef f(app): web.run_app(app)",
    "uvicorn": "import uvicorn\ndef f(app): uvicorn.run(app)",
    "a server of uvicorn, inherited": "from uvicorn.server import Server as Base\nclass f(Base): ...",
    "uvicorn imported where it is used": "def f(app):\n    import uvicorn as u\n    u.Server(u.Config(app))",
    "hypercorn": "from hypercorn.asyncio import serve\nasync def f(app, c): await serve(app, c)",
    "asyncio": "import asyncio\nasync def f(h): await asyncio.start_server(h, '0.0.0.0', 1)",
    "asyncio on a Unix socket": "from asyncio import start_unix_server as s\nasync def f(h): await s(h, 'p')",
    "asyncio on a descriptor": "async def f(loop, make, number): await loop.create_server(make, sock=number)",
    "a connection that was accepted": "async def f(self, c): await self.loop.connect_accepted_socket(self.make, c)",
    "a socket of a descriptor": "import socket\ndef f(number): return socket.socket(fileno=number)",
    "a socket of a descriptor by place": "from socket import socket as S\ndef f(n): return S(1, 1, 0, n)",
    "options that may have a descriptor": "import socket\ndef f(options): return socket.socket(**options)",
    "a descriptor that is taken over": "import socket\ndef f(n): return socket.fromfd(n, 1, 1)",
    "a descriptor that is read": "def f(loop, n, g): loop.add_reader(n, g)",
    "a method that is given away": "from functools import partial\ndef f(loop): return partial(loop.create_server, 1)",
    "a method that is looked up by text": "def f(loop): return getattr(loop, 'create_unix_server')",
    "sockets by hand": "def f(s): s.bind(('', 1))",
    "a library's function": "import socket\ndef f(): return socket.create_server(('', 1))",
    "socketserver": "import socketserver as ss\nclass f(ss.ThreadingMixIn, ss.UDPServer): ...",
    "http.server": "from http.server import ThreadingHTTPServer\ndef f(h): ThreadingHTTPServer(('', 1), h)",
    "another library's server": "from fakeredis import TcpFakeServer\nclass f(TcpFakeServer): ...",
    "anyio": "import anyio\nasync def f(): await anyio.create_tcp_listener(local_port=1)",
    "grpc": "from grpc import aio\ndef f(): return aio.server()",
    "multiprocessing": "from multiprocessing.connection import Listener\ndef f(): return Listener(('', 1))",
    "an MCP server": "def f(server): server.run(transport='streamable-http')",
    "a library that is imported by a text": "from importlib import import_module as i\ndef f(): return i('uvicorn')",
    "a library that another module of ours has": "from framehold_router.pages import web\ndef f(r): web.TCPSite(r)",
    "a program": "import subprocess\ndef f(): subprocess.Popen(['/usr/bin/redis-server', '--port', '1'])",
    "a module that is a program": "import sys\ndef f(): return [sys.executable, '-m', 'uvicorn', 'app:app']",
    "a command line": "import os\ndef f(): os.system('haproxy -f x.cfg')",
    "a program that is looked for": "import shutil\ndef f(): return shutil.which('nginx')",
}
NO_DOORS = {
    "a client": "import asyncio\nasync def f(): await asyncio.open_connection('h', 1)",
    "a client of a server's library": "import aiohttp\nasync def f(): aiohttp.ClientSession()",
    "a server of ours, found where it is": "from framehold_fleet.http_server.server import serve\ndef f(): serve(1)",
    "a method of a class of this file": "class A:\n    def listen(self): ...\ndef f():\n    a = A()\n    a.listen()",
    "a type": "import uvicorn\ndef f(config: uvicorn.Config) -> uvicorn.Server: ...",
    "a socket": "import socket\ndef f(): return socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
    "a label": "def f(row): return row['haproxy'], row.get('redis-server'), ('uvicorn', 'starlette')",
    "an MCP server on standard input": "def f(server): server.run(transport='stdio')",
}
CREDENTIALS = {
    "in a query": "import httpx2\ndef f(admin_token): httpx2.get('http://h', params={'t': admin_token})",
    "in a cookie": "import aiohttp\nasync def f(http, x): await http.get('http://h', cookies={'session': x.secret})",
    "in a query's pairs": "def f(http, x): http.get('http://h', params=[('api_key', x)])",
    "in an address": "def f(http, word): http.get(f'http://h/p?access_token={word}')",
    "in an address by what it is": "def f(http, me): http.get('http://h/p?t=' + me.token)",
    "in an encoded query": "from urllib.parse import urlencode\ndef f(x): return urlencode({'token': x})",
    "in a query that is added": "def f(url, x): return url.update_query(token=x)",
    "in a user's part of an address": "def f(password): return f'redis://user:{password}@h/0'",
    "in a header": "def f(http, x): http.get('http://h', headers={'X-Api-Key': x})",
    "in a header by what it is": "def f(http, self): http.get('http://h', headers={'x-proof': self._secret})",
    "in a header that is added": "def f(request, x): request.headers['Authorization'] = x",
    "in headers as pairs": "def f(headers, x): headers.append((b'authorization', x))",
    "in a header of urllib": "def f(request, x): request.add_header('Cookie', x)",
    "in a header under a constant": "KEY = b'api-key'\ndef f(http, x): http.get('h', headers={KEY.decode(): x})",
    "in a header under a constant of ours": "from framehold_router.collect.node_client import CREDENTIAL\n"
    "def f(x):\n    more_headers = [(CREDENTIAL, x)]",
    "in headers of another name": "def f(http, x):\n    sent = {'authorization': x}\n    http.get('h', headers=sent)",
    "in a query of another name": "def f(http, me):\n    sent = {'t': me.token}\n    http.get('h', params=sent)",
    "in headers that are merged": "def f(headers, x): headers |= {'authorization': x}",
    "in options": "def f(http, x): http.get('http://h', **{'headers': {'authorization': x}})",
    "by a scheme": "def f(x): return f'Bearer {x}'",
    "by a scheme, joined": "def f(x): return 'Basic ' + x",
    "by a scheme, in bytes": "def f(x): return b'Authorization: Bearer %b' % x",
    "as auth": "import httpx2\ndef f(x): httpx2.get('http://h', auth=('any', x))",
    "as auth of a class": "from aiohttp import BasicAuth as B\ndef f(x): return B('any', x)",
    "as a password": "from redis.asyncio import Redis\ndef f(x): return Redis(host='h', password=x)",
    "in the address of a store": "import redis\ndef f(url): return redis.from_url(url)",
    "in a cookie that is set": "def f(response, token): response.set_cookie('s', token)",
    "in a child's environment": "import os\ndef f(x): return {**os.environ, 'FRAMEHOLD_KEYS': x}",
    "in this process's environment": "import os\ndef f(x): os.environ['LOADTEST_STATE_KEY'] = x",
}
NO_CREDENTIALS = {
    "a header": "def f(http): http.get('http://h', headers={'Accept': 'text/html'})",
    "a header that is read": "def f(request): return request.headers.get('Authorization')",
    "a header that is looked at": "def f(request): return request.headers['authorization'] == 'x'",
    "a query": "def f(http, x): http.get('http://h/p?page=1', params={'page': x})",
    "a sentence": "def f(url): return f'{url} wants a token: give one with --token'",
    "an address": "def f(host): return f'http://{host}/mcp?page={host}'",
    "a type": "from httpx2 import BasicAuth\ndef f(auth: BasicAuth) -> None: ...",
}


@pytest.mark.parametrize("text", DOORS.values(), ids=DOORS)
def test_a_door_is_found_however_it_is_spelt(text: str) -> None:
    assert doors(sample(text)) >= ({"A.f"} if "class A" in text else {"f"})


@pytest.mark.parametrize("text", NO_DOORS.values(), ids=NO_DOORS)
def test_what_is_no_door_is_not_taken_for_one(text: str) -> None:
    assert doors(sample(text)) == set()


@pytest.mark.parametrize("text", CREDENTIALS.values(), ids=CREDENTIALS)
def test_a_credential_is_found_however_it_is_sent(text: str) -> None:
    assert credentials(sample(text)) == ({"A.f"} if "class A" in text else {"f"})


@pytest.mark.parametrize("text", NO_CREDENTIALS.values(), ids=NO_CREDENTIALS)
def test_what_is_no_credential_is_not_taken_for_one(text: str) -> None:
    assert credentials(sample(text)) == set()


def test_what_a_platform_or_a_script_opens_is_found() -> None:
    assert all(CONFIGURED.search(text) for text in ("  bind :80", "EXPOSE 1", "- {containerPort: 1}", "  ports: [1]"))
    assert not CONFIGURED.search("  http-request deny\n  # bind 1\n  reports: 2")
    assert all(
        IN_SCRIPTS.search(text) for text in ("{ Authorization: x }", "document.cookie", 'credentials: "include"')
    )
    assert not IN_SCRIPTS.search('credentials: "omit"')
