"""Keys outlive every upgrade and stand in Secrets alone: new ones would end parked calls, seen ones open tokens."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

import helm_python
import pytest

from tests.helm.chart.cluster import Cluster, Release, cluster
from tests.helm.chart.render import CI, ci, render, secrets_of

pytestmark = pytest.mark.chart

OLD, NEW = "a" * 64, "b" * 64


@pytest.fixture
def at() -> Iterator[Cluster]:
    with cluster() as started:
        yield started


def _data(at: Cluster, name: str) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in at.secret(name)["data"].items()}


def _checksum(at: Cluster) -> str:
    text: str = at.template("statefulsets", "fleet-framehold-node")["metadata"]["annotations"]["checksum/auth"]
    return text


def test_what_was_generated_survives_an_upgrade(at: Cluster) -> None:
    release = Release(at)
    release.install({})
    drawn, store, checksum = _data(at, "fleet-framehold"), _data(at, "fleet-framehold-store"), _checksum(at)
    assert len(drawn["keys"]) == 64 and len(drawn["admin-token"]) == 40 and len(store["password"]) == 40

    release.upgrade({"node": {"replicas": 5}})
    # What was drawn is no value of the release: else it would reach the schema, which knows no such value.
    release.upgrade({"gitops": False}, reuse_values=True)
    assert at.replicas() == 5
    release.upgrade({"node": {"autoscaling": {"enabled": True}}})

    assert _data(at, "fleet-framehold") == drawn
    assert _data(at, "fleet-framehold-store") == store
    assert _checksum(at) == checksum, "an upgrade that changes no Secret rolled the nodes for one"


def test_the_password_in_the_stores_url_is_the_one_that_the_store_wants(at: Cluster) -> None:
    Release(at).install({"store": {"bundled": {"maxMemory": 134217728}}})
    held = _data(at, "fleet-framehold-store")
    # By the Service's own name: in its namespace it is found whatever the cluster calls its services.
    assert held["url"] == f"redis://framehold:{held['password']}@fleet-framehold-store:6379/0"
    shown = hashlib.sha256(held["password"].encode()).hexdigest()
    assert f"user framehold on #{shown} " in held["valkey.conf"] and "user default off\n" in held["valkey.conf"]
    assert "maxmemory-policy noeviction\n" in held["valkey.conf"] and "appendonly yes\n" in held["valkey.conf"]
    for line in ("maxmemory 134217728", "hash-max-listpack-value 4096"):
        assert f"{line}\n" in held["valkey.conf"]


def test_pods_are_made_new_by_what_they_read_alone(at: Cluster) -> None:
    """The fleet reads no settings of the store: it must not end while the store does."""
    release, seen = Release(at), []
    release.install({})
    for _ in range(2):
        parts = [("statefulsets", "store"), ("statefulsets", "node"), ("deployments", "router")]
        pods = [at.template(plural, f"fleet-framehold-{part}") for plural, part in parts]
        seen.append([pod["metadata"]["annotations"] for pod in pods])
        release.upgrade({"store": {"bundled": {"maxMemory": "128mb"}}})
    assert [one == other for one, other in zip(*seen, strict=True)] == [False, True, True]


def test_a_secret_of_ones_own_is_used_and_never_written_and_what_is_read_of_it_rolls_the_nodes(at: Cluster) -> None:
    own: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "own"}, "data": {"fh": "YQ=="}}
    at.objects["/api/v1/namespaces/prod/secrets/own"] = own
    release = Release(at)
    values = {"auth": {"existingSecret": "own", "keysKey": "fh", "adminTokenKey": "admin"}}
    release.install(values)
    assert "/api/v1/namespaces/prod/secrets/fleet-framehold" not in at.objects
    assert secrets_of(at.template("statefulsets", "fleet-framehold-node")["spec"])["FRAMEHOLD_KEYS"] == ("own", "fh")
    for key, rolls in (("fh", True), ("admin", True), ("other", False)):
        before = _checksum(at)
        own["data"][key] = "Yg=="
        release.upgrade(values)
        assert (_checksum(at) != before) == rolls, key


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("fleet-framehold", {"auth": {"existingSecret": "fleet-framehold"}}),
        ("fleet-framehold-store", {"store": {"existingSecret": {"name": "fleet-framehold-store"}}}),
    ],
)
def test_a_secret_that_the_release_made_is_none_of_ones_own(at: Cluster, name: str, values: dict[str, Any]) -> None:
    """Helm takes away what a release makes no longer: the pods that were told to read it would find nothing."""
    release = Release(at)
    release.install({})
    before = dict(at.objects)
    with pytest.raises(helm_python.HelmError, match=f"is {name}, which this release has made itself"):
        release.upgrade(values)
    assert at.objects == before


def test_two_installations_have_nothing_in_common() -> None:
    one, other = (render().one("Secret", "fleet-framehold")["data"] for _ in range(2))
    assert one["keys"] != other["keys"] and one["admin-token"] != other["admin-token"]


def test_keys_are_rotated_by_upgrades_that_roll_every_process(at: Cluster) -> None:
    release, seen = Release(at), []
    release.install({"auth": {"keys": [OLD]}})
    for keys in ([OLD, NEW], [NEW, OLD], [NEW]):
        seen.append(_checksum(at))
        release.upgrade({"auth": {"keys": keys}})
        assert _data(at, "fleet-framehold")["keys"] == ",".join(keys)
        router = at.template("deployments", "fleet-framehold-router")["metadata"]["annotations"]["checksum/auth"]
        assert router == _checksum(at)
    assert len({*seen, _checksum(at)}) == 4
    release.upgrade({})
    assert _data(at, "fleet-framehold")["keys"] == NEW, "keys that are said no longer are kept"


def test_an_upgrade_without_the_secret_is_refused_and_changes_nothing(at: Cluster) -> None:
    release = Release(at)
    release.install({})
    del at.objects["/api/v1/namespaces/prod/secrets/fleet-framehold"]
    before = dict(at.objects)
    with pytest.raises(
        helm_python.HelmError, match="the Secret prod/fleet-framehold with this fleet's keys is not there"
    ):
        release.upgrade({})
    assert at.objects == before


def test_routers_alone_get_the_read_token(at: Cluster) -> None:
    """Where a key is named for it; then it is kept as the admin token is. No pod has it otherwise."""
    release = Release(at)
    release.install({})
    assert "FRAMEHOLD_READ_TOKEN" not in secrets_of(at.template("deployments", "fleet-framehold-router")["spec"])
    assert "read-token" not in _data(at, "fleet-framehold")
    before = _checksum(at)
    release.upgrade({"auth": {"readTokenKey": "read-token"}})
    drawn = _data(at, "fleet-framehold")
    assert len(drawn["read-token"]) == 40 and drawn["read-token"] != drawn["admin-token"]
    read = secrets_of(at.template("deployments", "fleet-framehold-router")["spec"])
    assert read["FRAMEHOLD_READ_TOKEN"] == ("fleet-framehold", "read-token")
    assert "FRAMEHOLD_READ_TOKEN" not in secrets_of(at.template("statefulsets", "fleet-framehold-node")["spec"])
    assert _checksum(at) != before
    release.upgrade({"auth": {"readTokenKey": "read-token"}, "node": {"replicas": 5}})
    assert _data(at, "fleet-framehold") == drawn


@pytest.mark.parametrize("as_files", [True, False], ids=["files", "variables"])
@pytest.mark.parametrize("auth", [{}, {"existingSecret": "own", "keysKey": "fh"}], ids=["generated", "own"])
def test_all_of_a_fleet_read_the_same_keys(auth: dict[str, str], as_files: bool) -> None:
    """Nodes, routers, and what derives HAProxy's secret: one with others would be a stranger to its fleet, which relays
    hide from clients."""
    made = render({"auth": {**auth, "asFiles": as_files}, "haproxy": {"enabled": True}})
    pods = [each["spec"]["template"]["spec"] for each in made.of("Deployment") + made.of("StatefulSet")]
    read = [secrets_of(pod)["FRAMEHOLD_KEYS"] for pod in pods if "FRAMEHOLD_KEYS" in secrets_of(pod)]
    assert read == [(auth.get("existingSecret", "fleet-framehold"), auth.get("keysKey", "keys"))] * 3


@pytest.mark.parametrize("kind", ["", *CI])
def test_no_secret_is_anywhere_but_in_secrets(kind: str) -> None:
    values = ci(kind) if kind else {}
    result = ("auth" in values) or {"keys": [OLD], "adminToken": "an-admin-token-to-find"}
    rendered = render({**values, "auth": result} if isinstance(result, dict) else values)
    secrets = [value for made in rendered.of("Secret") for value in made.get("data", {}).values()]
    plain = {base64.b64decode(value).decode() for value in secrets} | {OLD, "an-admin-token-to-find"}
    others = "".join(repr(made) for made in rendered.objects if made["kind"] != "Secret") + rendered.notes
    assert [value for value in plain if value in others] == []
    assert [value for value in secrets if value in others] == []
