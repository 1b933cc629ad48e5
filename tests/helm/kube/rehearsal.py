"""How a test plays a scenario: as a child, which ends with all that it started, however it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from tests.helm.kube.cluster import Cluster
from tests.helm.kube.root import CHECKOUT

Facts = dict[str, Any]


def rehearse(scenario: Callable[[Cluster], Awaitable[Facts]], seconds: float = 120) -> Facts:
    """What a scenario found. `scenario` is a function of a module, and is run in another process. Its `log` goes to
    standard output, which a test that fails shows."""
    name = f"{scenario.__module__}:{scenario.__qualname__}"
    command = [sys.executable, "-m", "tests.helm.kube", name]
    try:
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"{name} did not end within {seconds:g} s:\n{_text(late.stderr)}") from None
    assert done.returncode == 0, f"{name} ended with {done.returncode}:\n{done.stderr}"
    facts: Facts = json.loads(done.stdout.splitlines()[-1])
    print(facts.pop("log"))
    return facts


def _text(text: bytes | str | None) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else text or ""
