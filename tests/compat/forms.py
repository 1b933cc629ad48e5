"""The small things that are stored or sent: how each is written, and what reading it gives.

A form has two functions that undo each other, `write` and `read`, between bytes (as text) and what they mean (as JSON).
A version's file of a form holds pairs of both. Every version must be read by the present code; the newest one must
also be what it writes, byte for byte, so that no format changes without a version of its own.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

from framehold_core.ids import CallId
from framehold_store.seal import Sealer
from tests.compat.dumps import KEY, NAMESPACE

Meaning = dict[str, Any]
CALL = CallId("c0ffee" * 5 + "00")
BOOT = "00112233445566ff"
sealer = Sealer([KEY.encode()], NAMESPACE)


class Form(NamedTuple):
    """`samples` are what a version's file is made of."""

    write: Callable[[Meaning], str]
    read: Callable[[str], Meaning]
    samples: tuple[Meaning, ...]


@contextmanager
def _fixed(seed: str) -> Iterator[None]:
    """Nonces drawn from `seed`, so that what is sealed twice is the same twice."""
    count = itertools.count()

    def drawn(size: int) -> bytes:
        return hashlib.shake_256(f"{seed} {next(count)}".encode()).digest(size)

    with mock.patch("os.urandom", drawn):
        yield


def written(form: Form, means: Meaning) -> str:
    """How the present code writes it, with the same nonces each time."""
    with _fixed(json.dumps(means, sort_keys=True)):
        return form.write(means)


def pairs(form: Form) -> list[Meaning]:
    """A version's file of a form."""
    return [{"means": means, "is": written(form, means)} for means in form.samples]
