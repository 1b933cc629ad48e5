"""What `framehold up --reload` says of a change."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterable

import pytest

from framehold_cli.local import check, reload
from framehold_cli.local.supervisor import Supervisor
from framehold_cli.show.voice import Voice
from framehold_core.errors import ConfigError

pytestmark = pytest.mark.anyio


async def test_files_that_can_not_be_watched() -> None:
    """The line says what to do. The fleet goes on."""
    out = io.StringIO()

    async def changes() -> AsyncIterator[Iterable[tuple[object, str]]]:
        raise OSError("OS file watch limit reached")
        yield []

    async def checked() -> str:
        raise AssertionError("nothing has changed")

    await reload.follow(changes(), Supervisor([], voice := Voice(out, colour=False)), [], checked, voice)
    (line,) = out.getvalue().splitlines()
    assert line.startswith("changes are not loaded any more: OS file watch limit reached. The fleet serves on")
    assert "fs.inotify.max_user_watches" in line


@pytest.mark.parametrize(
    "error", [check.too_slow("shop.py"), check.refusal("shop.py", 1, ["no such table"])], ids=["late", "refused"]
)
async def test_code_that_is_not_loaded(error: ConfigError) -> None:
    """The line says why, and that the node goes on: the error of a start says that nothing was started."""
    out = io.StringIO()
    voice = Voice(out, colour=False)

    async def changes() -> AsyncIterator[Iterable[tuple[object, str]]]:
        yield [(1, "/home/ada/shop.py")]

    async def checked() -> str:
        raise error

    await reload.follow(changes(), Supervisor([], voice), [], checked, voice)
    first, second = out.getvalue().splitlines()
    assert first == "shop.py changed, checking ..."
    assert second.startswith("not reloaded: TARGET shop.py can't be imported") and "nothing was" not in second
    assert second.endswith("; the node goes on with the code from before")
