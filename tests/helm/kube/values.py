"""Values for rehearsals: those of a trial, with short times, and a server whose tools keep a ledger."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from tests.fleet.ledger import VARIABLE
from tests.helm.kube.root import CHECKOUT

DRAIN = 5
"""Seconds that a node waits for calls that nobody else may carry on."""
SERVER = "tests.fleet.trials"
_LEDGER = {
    "extraVolumes": [{"name": "ledger", "hostPath": {"path": ""}}],
    "extraVolumeMounts": [{"name": "ledger", "mountPath": "/ledger"}],
}


def values(ledger: Path, **more: Any) -> dict[str, Any]:
    """Values of a fleet that serves the tools on trial; `more`: by path, as `node__replicas=2`."""
    made: dict[str, Any] = {
        "settings": {"routeHeaders": True, "logFormat": "text"},
        "node": {
            "target": f"{SERVER}:mcp",
            "image": {"repository": "registry.example/trials", "tag": "1"},
            "settings": {"leaseTtl": 2, "drainTimeout": DRAIN},
            # The image of one's own is the checkout.
            "env": [{"name": "PYTHONPATH", "value": str(CHECKOUT)}, {"name": VARIABLE, "value": "/ledger/ledger"}],
            **json.loads(json.dumps(_LEDGER).replace('"path": ""', f'"path": {json.dumps(str(ledger))}')),
        },
    }
    return changed(made, **more)


def changed(values: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The same but for `more`."""
    made = copy.deepcopy(values)
    for path, value in more.items():
        *above, last = path.split("__")
        at = made
        for part in above:
            at = at.setdefault(part, {})
        at[last] = value
    return made
