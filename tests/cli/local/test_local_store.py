"""The private store of a local fleet."""

from __future__ import annotations

import pytest

from framehold_cli.local import local_store
from framehold_core.errors import ConfigError
from framehold_store import StoreConfig

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("url", [None, "embedded://"])
async def test_nowhere_to_put_its_socket(url: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose files can't be written."""
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", list)
    with pytest.raises(ConfigError, match="nothing was started; mount a tmpfs at /tmp, or set TMPDIR"):
        await local_store.choose(StoreConfig(url), lasting_keys=False)
