"""Addresses as people type or paste them."""

from __future__ import annotations

_PAGES = ("/mcp", "/dashboard")


def base(url: str) -> str:
    """The router's own address, of any that `framehold up` prints, and of `127.0.0.1:8080` too."""
    whole = url.strip() if "://" in url else f"http://{url.strip()}"
    whole = whole.rstrip("/")
    for page in _PAGES:
        whole = whole.removesuffix(page)
    return whole.rstrip("/")
