"""Reads a stream of the fleet that `event_writer` writes, from where it ended the last time.

The law: whatever stands in the store, an entry that can't be read is skipped: somebody else wrote it, or a release that
says something else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from framehold_store.base import Store, StreamName

PAGE = 500
"""Entries of one read."""

ModelT = TypeVar("ModelT", bound=BaseModel)


class EventReader(Generic[ModelT]):
    """Reads entries of one form from the stream `of` in `store`."""

    def __init__(self, store: Store, form: type[ModelT], of: StreamName = "log") -> None:
        self._store, self._form, self._of = store, form, of
        self._place = ""

    async def fresh(self) -> AsyncIterator[ModelT]:
        """The entries behind the last one that was given, a page at a time.

        Raises:
            StoreUnavailable: no answer came in time; the next call goes on behind the last entry that was given.
        """
        while page := await self._store.events(self._place, PAGE, self._of):
            for stored in page:
                self._place = stored.place
                try:
                    entry = self._form.model_validate_json(stored.entry)
                except ValidationError:
                    continue
                yield entry
            if len(page) < PAGE:
                return
