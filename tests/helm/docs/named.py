"""What a `kubectl` command of the page names, and whether it is there by then."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.helm.chart.render import Rendered
from tests.helm.docs.page import Command

_KINDS = {
    "configmap": "ConfigMap",
    "deployment": "Deployment",
    "hpa": "HorizontalPodAutoscaler",
    "pod": "Pod",
    "prometheusrule": "PrometheusRule",
    "pvc": "PersistentVolumeClaim",
    "secret": "Secret",
    "service": "Service",
    "servicemonitor": "ServiceMonitor",
    "statefulset": "StatefulSet",
}
_OF_KIND = ("get", "describe", "delete", "patch")
_VALUED = ("-f", "-l", "-o", "-p")


def missing(command: Command, made: Rendered, secrets: set[str]) -> list[str]:
    """What it names and nobody has made. `secrets`: those that were made by hand."""
    found = [f"{kind} {name}" for kind, name in _objects(command) if not _there(kind, name, made, secrets)]
    found += [kind for kind in _kinds(command) if not _there(kind, None, made, secrets)]
    labels = _labels(made)
    found += [f"-l {each}" for each in command.options("-l") if tuple(each.split("=")) not in labels]
    return found + [f"key {key}" for key in _keys(command) if key not in ("keys", *_data(made))]


def _objects(command: Command) -> Iterator[tuple[str, str]]:
    words = _plain(command)
    yield from ((_kind(kind), name) for kind, mark, name in (word.partition("/") for word in words[2:]) if mark)
    if words[1] in _OF_KIND and "," not in words[2]:
        yield from ((_kind(words[2]), name) for name in words[3:])
    if words[1] == "logs":
        yield from (("Pod", name) for name in words[2:])


def _kinds(command: Command) -> Iterator[str]:
    """Kinds of which all are asked for."""
    words = _plain(command)
    if words[1] == "get" and len(words) == 3:
        yield from map(_kind, words[2].split(","))


def _plain(command: Command) -> list[str]:
    """Its words without options and what is run within a pod."""
    words = list(command.words[: command.words.index("--")] if "--" in command.words else command.words)
    options = {at + 1 for at, word in enumerate(words) if word in _VALUED}
    return [word for at, word in enumerate(words) if at not in options and not word.startswith("-")]


def _kind(word: str) -> str:
    return _KINDS.get(word) or _KINDS[word.removesuffix("s")]


def _there(kind: str, name: str | None, made: Rendered, secrets: set[str]) -> bool:
    names = {each["metadata"]["name"] for each in made.of(kind)}
    if kind == "Secret":
        names |= secrets
    if kind == "Pod":
        names = {f"{owner}-{number}" for owner, count, _ in _sets(made) for number in range(count)}
    if kind == "PersistentVolumeClaim":
        names = {
            f"{claim}-{owner}-{at}" for owner, count, claims in _sets(made) for claim in claims for at in range(count)
        }
    return bool(names) if name is None else name in names


def _sets(made: Rendered) -> Iterator[tuple[str, int, list[str]]]:
    """Each StatefulSet: its name, the least of its pods, its claims."""
    least = {each["spec"]["scaleTargetRef"]["name"]: each["spec"] for each in made.of("HorizontalPodAutoscaler")}
    for each in made.of("StatefulSet"):
        name, spec = each["metadata"]["name"], each["spec"]
        count = spec["replicas"] if "replicas" in spec else least[name]["minReplicas"]
        yield name, count, [claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", ())]


def _labels(made: Rendered) -> set[tuple[str, ...]]:
    bare = [each["metadata"].get("labels", {}) for each in made.objects]
    pods = [
        each["spec"]["template"]["metadata"]["labels"] for each in (*made.of("StatefulSet"), *made.of("Deployment"))
    ]
    return {pair for labels in (*bare, *pods) for pair in labels.items()}


def _keys(command: Command) -> list[str]:
    """Keys of Secrets that are read."""
    return [key for text in command.options("-o") for key in re.findall(r"\.data\.([\w-]+)", text)]


def _data(made: Rendered) -> set[str]:
    return {key for each in made.of("Secret") for key in each["data"]}
