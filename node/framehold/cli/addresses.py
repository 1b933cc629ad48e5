"""Addresses as people type or paste them."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

_ENDPOINT = "/mcp"
_PAGES = (_ENDPOINT, "/dashboard")


def base(url: str) -> str:
    """The router's own address, of any that `framehold up` prints, and of `127.0.0.1:8080` too."""
    whole = url.strip() if "://" in url else f"http://{url.strip()}"
    whole = whole.rstrip("/")
    for page in _PAGES:
        whole = whole.removesuffix(page)
    return whole.rstrip("/")


def endpoints(url: str) -> str:
    """Where MCP may be served, in words, for someone who found nothing at `url`: below it, or at the server's root."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    below = [] if path.endswith(_ENDPOINT) else [f"{path}{_ENDPOINT}"]
    places = dict.fromkeys([*below, *([_ENDPOINT] if path != _ENDPOINT else [])])
    found = [urlunsplit((parts.scheme, parts.netloc, place, "", "")) for place in places]
    return " or ".join(f"--url {one}" for one in found) or "another --url"
