"""What a registry of images says of a tag, by its HTTP API (OCI distribution spec, 'Pulling manifests')."""

from __future__ import annotations

import hashlib
import re

import httpx2

from release import Refused

HUB = "https://registry-1.docker.io"
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
"""The kinds of manifest that lead to one image for each platform."""


def digest(image: str, registry: str = HUB) -> str:
    """The digest of what `image`, a name and a tag, leads to now, for all its platforms.

    Raises:
        Refused: the registry can't be asked, or what it says can't be right."""
    name, _, tag = image.partition(":")
    address = f"{registry}/v2/{name if '/' in name else f'library/{name}'}/manifests/{tag}"
    undone = "nothing was written; ask again where the registry can be reached, or name another tag"
    try:
        reply = _asked(address)
    except (httpx2.HTTPError, ValueError, KeyError) as error:
        raise Refused(f"{registry} does not say the digest of {image} ({error!r}); {undone}") from None
    kind = reply.headers.get("content-type", "").partition(";")[0]
    if kind not in _INDEXES:
        raise Refused(f"{registry} has {image} as {kind}, for one platform; {undone}")
    found = f"sha256:{hashlib.sha256(reply.content).hexdigest()}"
    if reply.headers.get("docker-content-digest", found) != found:
        raise Refused(f"{registry} sent another manifest of {image} than its digest says; {undone}")
    return found


def _asked(address: str) -> httpx2.Response:
    headers = {"accept": ", ".join(_INDEXES)}
    with httpx2.Client(timeout=30) as http:
        reply = http.get(address, headers=headers)
        if reply.status_code == 401:
            # A public image needs a token too, which anybody gets where this header says.
            where = dict(re.findall(r'(\w+)="([^"]*)"', reply.headers.get("www-authenticate", "")))
            token = http.get(where.pop("realm"), params=where).raise_for_status().json()["token"]
            reply = http.get(address, headers={**headers, "authorization": f"Bearer {token}"})
        return reply.raise_for_status()
