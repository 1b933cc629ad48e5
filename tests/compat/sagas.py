"""Tokens of sagas, sealed, and what they say."""

from __future__ import annotations

from framehold.wires import saga_token
from framehold.wires.saga_token import Saga
from tests.compat.forms import CALL, Form, Meaning, sealer


def _read(text: str) -> Meaning:
    found = saga_token.opened(text, sealer)
    assert found is not None, "a version that this release knows"
    return found._asdict()


_SAGA = {"name": "book", "arguments": {"restaurant": "Luna"}, "chosen": None, "given": {}, "state": None}
_SAGAS: tuple[Meaning, ...] = (
    {**_SAGA, "state": f"h1.{CALL}.sealed"},
    {**_SAGA, "given": {"seat": 2}, "state": "s1.sealed"},
    {**_SAGA, "chosen": {"version": "2.0"}},
)
SAGAS = Form(lambda means: saga_token.sealed(Saga(**means), sealer), _read, _SAGAS)
