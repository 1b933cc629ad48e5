"""The rules of Kubernetes for a container's environment, against its documentation's own examples."""

from __future__ import annotations

import pytest

from tests.helm.kube.env import MissingReference, environment, expand

SECRET = {"url": b"redis://store", "password": b"s3cret"}


def data(kind: str, name: str) -> dict[str, bytes] | None:
    return SECRET if (kind, name) == ("Secret", "store") else None


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("http://$(HOST):8080", "http://10.0.0.1:8080"),
        ("$(NOBODY)", "$(NOBODY)"),
        ("$$(HOST)", "$(HOST)"),
        ("$HOST costs 5 $", "$HOST costs 5 $"),
    ],
)
def test_references_are_filled_in_where_the_name_is_known(written: str, found: str) -> None:
    assert expand(written, {"HOST": "10.0.0.1"}) == found


def test_a_variable_sees_those_that_stand_before_it_alone() -> None:
    env = [{"name": "URL", "value": "$(IP)"}, {"name": "IP", "value": "1"}, {"name": "LATE", "value": "$(IP)"}]
    assert environment({"env": env}, {}, data) == {"URL": "$(IP)", "IP": "1", "LATE": "1"}


def test_values_come_from_fields_and_secrets_and_the_list_counts_more_than_what_is_taken_whole() -> None:
    spec = {
        "envFrom": [
            {"secretRef": {"name": "store"}, "prefix": "STORE_"},
            {"configMapRef": {"name": "x", "optional": True}},
        ],
        "env": [
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "STORE_url", "valueFrom": {"secretKeyRef": {"name": "store", "key": "password"}}},
            {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "store", "key": "none", "optional": True}}},
        ],
    }
    made = environment(spec, {"metadata.name": "node-0"}, data)
    assert made == {"STORE_url": "s3cret", "STORE_password": "s3cret", "NODE": "node-0"}


@pytest.mark.parametrize(("secret", "key"), [("nobodys", "url"), ("store", "none")])
def test_a_container_is_not_created_without_what_it_refers_to(secret: str, key: str) -> None:
    env = [{"name": "URL", "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}]
    with pytest.raises(MissingReference, match=secret):
        environment({"env": env}, {}, data)
