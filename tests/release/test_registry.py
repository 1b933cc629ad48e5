"""The digest of an image as a registry says it, from a stand-in of its HTTP API."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message

import pytest

from framehold_cli.local.ports import free
from release import Refused, registry
from tests.release.served import Reply, served

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = b'{"manifests": [{"platform": {"architecture": "amd64"}}, {"platform": {"architecture": "arm64"}}]}'
DIGEST = f"sha256:{hashlib.sha256(MANIFEST).hexdigest()}"
PATH = "/v2/library/haproxy/manifests/3.2-alpine"
SCOPE = "repository:library/haproxy:pull"


@dataclass
class Registry:
    """What it serves, and what it was asked. `open`: to everybody; else a token is wanted, as Docker Hub does."""

    url: str = ""
    open: bool = False
    kind: str = INDEX
    body: bytes = MANIFEST
    digest: str | None = DIGEST
    token: str = "granted"
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str, headers: Message, _: bytes) -> Reply:
        """What a registry answers."""
        self.asked.append(path)
        if path == f"/token?service=the+registry&scope={SCOPE.replace(':', '%3A').replace('/', '%2F')}":
            return 200, {}, json.dumps({"token": self.token}).encode()
        if path != PATH:
            return 404, {}, b"{}"
        if not self.open and headers["authorization"] != "Bearer granted":
            wants = f'Bearer realm="{self.url}/token",service="the registry",scope="{SCOPE}"'
            return 401, {"www-authenticate": wants}, b"{}"
        digest = {} if self.digest is None else {"docker-content-digest": self.digest}
        return 200, {"content-type": self.kind, **digest}, self.body


@pytest.fixture
def hub() -> Iterator[Registry]:
    made = Registry()
    with served(made.answer) as made.url:
        yield made


def test_a_tag_leads_to_the_digest_of_its_index(hub: Registry) -> None:
    """Of the bytes themselves; a token is fetched where the registry says."""
    assert registry.digest("haproxy:3.2-alpine", hub.url) == DIGEST
    assert [path.partition("?")[0] for path in hub.asked] == [PATH, "/token", PATH]


def test_a_registry_that_is_open_is_asked_once(hub: Registry) -> None:
    hub.open, hub.digest = True, None
    assert registry.digest("haproxy:3.2-alpine", hub.url) == DIGEST
    assert hub.asked == [PATH]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"token": "refused"}, "401"),
        ({"kind": "application/vnd.oci.image.manifest.v1+json"}, "for one platform"),
        ({"body": b"another"}, "another manifest of haproxy:3.2-alpine than its digest says"),
    ],
)
def test_what_can_not_be_right_is_refused(hub: Registry, change: dict[str, object], why: str) -> None:
    vars(hub).update(change)
    with pytest.raises(Refused, match=f"{why}.*nothing was written"):
        registry.digest("haproxy:3.2-alpine", hub.url)


def test_a_tag_that_is_not_there_and_a_registry_that_is_out_of_reach_are_refused(hub: Registry) -> None:
    hub.open = True
    for image, url, why in (("haproxy:9", hub.url, ".*404"), ("haproxy:3.2-alpine", f"http://127.0.0.1:{free()}", "")):
        with pytest.raises(Refused, match=f"does not say the digest of {image} {why}.*nothing was written"):
            registry.digest(image, url)
