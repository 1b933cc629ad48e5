"""Reads addresses that people type or paste."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

_ENDPOINT = "/mcp"
_PAGES = (_ENDPOINT, "/dashboard")


def base(url: str) -> str:
    """The router's base URL, from any URL that `framehold up` prints, or from an address without a scheme."""
    whole = url.strip() if "://" in url else f"http://{url.strip()}"
    whole = whole.rstrip("/")
    for page in _PAGES:
        whole = whole.removesuffix(page)
    return whole.rstrip("/")


def endpoints(url: str) -> str:
    """Options to try when nothing serves MCP at `url`: `/mcp` below it, or at the server's root. In words, for a
    message."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    below = [] if path.endswith(_ENDPOINT) else [f"{path}{_ENDPOINT}"]
    places = dict.fromkeys([*below, *([_ENDPOINT] if path != _ENDPOINT else [])])
    found = [urlunsplit((parts.scheme, parts.netloc, place, "", "")) for place in places]
    return " or ".join(f"--url {one}" for one in found) or "another --url"
