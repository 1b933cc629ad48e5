"""What a container's process finds in its environment: what its spec says, by Kubernetes' rules, and nothing else.

1. `envFrom`, in order; then `env`, in order, each over what was there
2. `$(NAME)` in a value is what stands before it in the list; an unknown name is left as it is written
3. `$$(NAME)` is `$(NAME)`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Data = Callable[[str, str], Mapping[str, bytes] | None]
"""The data of a Secret or ConfigMap, by kind and name; None where there is none."""

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")


class MissingReference(Exception):
    """A container can't be created: what its spec refers to is not there."""


def expand(text: str, known: Mapping[str, str]) -> str:
    """`text` with its references filled in."""

    def fill(found: re.Match[str]) -> str:
        return "$" if found[1] is None else known.get(found[1], found[0])

    return _REFERENCE.sub(fill, text)


def environment(container: Mapping[str, Any], fields: Mapping[str, str], data: Data) -> dict[str, str]:
    """The variables of a container; `fields` are those of its pod, by path.

    Raises:
        MissingReference: it refers to what is not there."""
    made: dict[str, str] = {}
    for source in container.get("envFrom", []):
        (kind,) = source.keys() & {"secretRef", "configMapRef"}
        wanted = source[kind]
        found = data("Secret" if kind == "secretRef" else "ConfigMap", wanted["name"])
        if found is None and not wanted.get("optional"):
            raise MissingReference(f"{kind} {wanted['name']}")
        prefix = source.get("prefix", "")
        made |= {prefix + key: value.decode() for key, value in (found or {}).items()}
    for variable in container.get("env", []):
        value = _value(variable, made, fields, data)
        if value is not None:
            made[variable["name"]] = value
    return made


def _value(variable: Mapping[str, Any], made: Mapping[str, str], fields: Mapping[str, str], data: Data) -> str | None:
    if "valueFrom" not in variable:
        return expand(str(variable.get("value", "")), made)
    ((kind, wanted),) = variable["valueFrom"].items()
    if kind == "fieldRef":
        return fields[wanted["fieldPath"]]
    found = data({"secretKeyRef": "Secret", "configMapKeyRef": "ConfigMap"}[kind], wanted["name"])
    if found is None or wanted["key"] not in found:
        if wanted.get("optional"):
            return None
        raise MissingReference(f"{kind} {wanted['name']}.{wanted['key']}")
    return found[wanted["key"]].decode()
