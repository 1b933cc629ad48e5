"""The forms by the names of their files."""

from __future__ import annotations

from tests.compat import journals, names, sagas, states
from tests.compat.forms import Form

FORMS: dict[str, Form] = {
    "entries": journals.ENTRIES,
    "seals": journals.SEALS,
    "heads": journals.HEADS,
    "tokens": states.TOKENS,
    "sagas": sagas.SAGAS,
    "sessions": names.SESSIONS,
    "secrets": names.SECRETS,
    "ring": names.RINGS,
    "stats": names.STATS,
    "events": names.EVENTS,
}
