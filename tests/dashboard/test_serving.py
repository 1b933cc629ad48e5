"""How the dashboard's files are served: whole, once each, to anybody, and never one that isn't its own."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from importlib.resources.abc import Traversable

import aiohttp
import pytest
from yarl import URL

from framehold_router.dashboard import ASSETS, assets, policy
from tests.router.cast import Client, cast_of

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

PLAIN = {"Accept-Encoding": "identity"}
ADDRESSES = ("", "/", "/leases", "/ring", "/nodes/a", "/calls/0123abcd", "/failovers", "/no/such/page", "/assets")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[Client]:
    """Of a router with an admin token, which nobody here shows."""
    async with cast_of() as cast:
        cast.token = "secret"
        client = await cast.client()
        # What is sent is looked at as it came.
        client.session._auto_decompress = False
        yield client


async def sent(client: Client, path: str, method: str = "GET", **headers: str) -> tuple[aiohttp.ClientResponse, bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()} or PLAIN
    async with client.request(method, URL(path, encoded=True), headers=named, allow_redirects=False) as response:
        return response, await response.read()


def on_disk(folder: Traversable, above: str = "") -> set[str]:
    found = set[str]()
    for path in folder.iterdir():
        found |= on_disk(path, f"{above}{path.name}/") if path.is_dir() else {above + path.name}
    return found


async def test_every_address_of_a_page_gets_the_shell(client: Client) -> None:
    """Whatever page it is: the browser knows."""
    shell = (ASSETS / "index.html").read_bytes()
    for address in ADDRESSES:
        response, body = await sent(client, f"/dashboard{address}")
        assert (response.status, body) == (200, shell), address
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"


async def test_the_shell_runs_what_comes_from_here_and_nothing_else(client: Client) -> None:
    """Its policy names this router, and of what stands in the page the import map by its digest."""
    response, body = await sent(client, "/dashboard")
    rules = dict(rule.split(" ", 1) for rule in response.headers["Content-Security-Policy"].split("; "))
    [inline] = re.findall(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", body, re.DOTALL)
    digest = b64encode(sha256(inline).digest()).decode()
    assert rules == {
        "default-src": "'none'",
        "script-src": f"'self' 'sha256-{digest}'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
    }
    assert not re.search(rb"<style|\sstyle=|\son\w+=|//[a-z]", body), "the policy would refuse it"
    assert set(json.loads(inline)["imports"]) >= {"preact", "htm"}


def test_a_shell_without_an_import_map_has_no_digest() -> None:
    assert "script-src 'self';" in policy(b"<!doctype html>")


async def test_every_file_is_served_as_it_is(client: Client) -> None:
    """With its kind, and to be asked for again each time."""
    kinds = {"js": "text/javascript", "mjs": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    names = on_disk(ASSETS) - {"index.html"}
    assert {"app.js", "vendor/preact.mjs"} <= names
    for name in names:
        response, body = await sent(client, f"/dashboard/assets/{name}")
        assert (response.status, body) == (200, ASSETS.joinpath(name).read_bytes()), name
        assert response.headers["Cache-Control"] == "no-cache"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Content-Type"] == f"{kinds.get(name.split('.')[-1], 'text/plain')}; charset=utf-8"


async def test_what_is_no_file_is_not_there(client: Client) -> None:
    """Nor is one of this machine, however its path is spelt."""
    climbs = ("../__init__.py", "%2e%2e/__init__.py", "..%2f__init__.py", "lib/../../__init__.py", "%2fetc/passwd")
    for name in ("", "none.js", "lib", "lib/", "App.js", "app.js/", "//app.js", "app.js%00", "index.html", *climbs):
        response, body = await sent(client, f"/dashboard/assets/{name}")
        # Dots that a client resolves itself make it the address of a page.
        assert response.status == 404 or body == assets()["index.html"].body, name


@pytest.mark.parametrize("path", ["/dashboard", "/dashboard/assets/app.js"])
async def test_who_has_it_already_is_told_so(client: Client, path: str) -> None:
    """By its tag, in either form; what changed is sent anew."""
    response, body = await sent(client, path)
    tag = response.headers["ETag"]
    assert tag == f'W/"{sha256(body).hexdigest()}"'
    assert (await sent(client, path, Accept_Encoding="gzip"))[0].headers["ETag"] == tag
    for known in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        response, body = await sent(client, path, If_None_Match=known)
        assert (response.status, body) == (304, b""), known
        assert response.headers["ETag"] == tag
        assert response.headers["Cache-Control"] == "no-cache"
    for other in ('"other"', "other", '"', ""):
        assert (await sent(client, path, If_None_Match=other))[0].status == 200, other


@pytest.mark.parametrize("path", ["/dashboard", "/dashboard/assets/app.js", "/dashboard/assets/vendor/uPlot.js"])
async def test_who_takes_gzip_gets_it(client: Client, path: str) -> None:
    """And nobody else; caches are told that there are two forms."""
    _, plain = await sent(client, path)
    for accepted in ("gzip", "br, GZIP;q=0.5", "gzip; q=1.0, *;q=0", "deflate,x-gzip"):
        response, body = await sent(client, path, Accept_Encoding=accepted)
        assert (response.headers["Content-Encoding"], gzip.decompress(body)) == ("gzip", plain), accepted
        assert response.headers["Vary"] == "Accept-Encoding"
    for accepted in ("identity", "br", "gzip;q=0", "gzip ; Q = 0.000", "*;q=0", "gzipped"):
        response, body = await sent(client, path, Accept_Encoding=accepted)
        assert "Content-Encoding" not in response.headers, accepted
        assert (body, response.headers["Vary"]) == (plain, "Accept-Encoding")


@pytest.mark.parametrize("path", ["/dashboard/leases", "/dashboard/assets/app.js"])
async def test_head_has_the_head_and_other_methods_nothing(client: Client, path: str) -> None:
    response, body = await sent(client, path)
    head, nothing = await sent(client, path, "HEAD", **PLAIN)
    assert (head.status, nothing) == (200, b"")
    for name in ("ETag", "Content-Type", "Content-Length"):
        assert head.headers[name] == response.headers[name]
    assert int(head.headers["Content-Length"]) == len(body)
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        refused, _ = await sent(client, path, method)
        assert refused.status == 405, method
        assert "GET" in refused.headers["Allow"]


def test_nothing_is_loaded_from_elsewhere() -> None:
    """Every name that a file of ours loads is one of these files."""
    known = set(assets())
    mapped = json.loads(re.findall(rb'importmap">(.*?)</script>', assets()["index.html"].body, re.DOTALL)[0])["imports"]
    loaded = set(re.findall(r'(?:src|href)="/dashboard/assets/([^"]+)"', assets()["index.html"].body.decode()))
    assert loaded | {name.removeprefix("/dashboard/assets/") for name in mapped.values()} <= known
    for name, file in assets().items():
        if not name.endswith(".js") or name.startswith("vendor/"):
            continue
        for imported in re.findall(r"(?m)^(?:import|export)\b[^;]*?\bfrom\s+\"([^\"]+)\"", file.body.decode()):
            target = str(URL(f"http://x/{name}").join(URL(imported)).path).lstrip("/")
            assert imported in mapped or target in known, f"{name} imports {imported}"
