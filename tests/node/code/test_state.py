"""State of the process that wrote the code stays there: the code meets the state of the process that carries it on."""

from __future__ import annotations

from pathlib import Path

import pytest

from framehold.code.codes import read
from tests.node.code.releases import Files, codes, files_of, registered, release

BOUND = {
    "a literal that another module binds": {
        "server.py": "import state\ndef start(word): state.url = word\ndef handler(): return said(), state.url",
        "state.py": "url = ''",
    },
    "one that a third module binds": {
        "server.py": "import state\nfrom boot import start\ndef handler(): return said(), state.url",
        "boot.py": "def start(word):\n    import state\n    state.url = word",
        "state.py": "url = None",
    },
    "a table that another module changes": {
        "server.py": "from state import TABLE\ndef start(word): TABLE['url'] = word\n"
        "def handler(): return said(), TABLE['url']",
        "state.py": "TABLE = {'url': ''}",
    },
    "a table of another module that a third one changes": {
        "server.py": "import state\nfrom boot import start\ndef handler(): return said(), state.TABLE['url']",
        "boot.py": "import state\ndef start(word): state.TABLE['url'] = word",
        "state.py": "TABLE = {'url': ''}",
    },
}
"""A handler of a word that `start` sets when its process begins, in each of these ways."""


def _release(text: str | Files, says: str) -> Files:
    return {**(files := files_of(text)), "server.py": f"def said(): return {says!r}\n{files['server.py']}"}


@pytest.mark.parametrize("kind", BOUND)
def test_what_code_binds_is_that_of_the_present_process(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old value is not in the bytes, and the digest is the same before and after, and in the next process."""
    digests = []
    for word in ("one", "the-old-word"):
        monkeypatch.setenv("WORD", word)
        with release(tmp_path / word, _release(BOUND[kind], "old")) as module:
            handler = registered(module.handler)
            digests.append(codes().of(handler).digest)
            module.start(word)
            digests.append(codes().of(handler).digest)
            data = codes().write(handler)
    assert len(set(digests)) == 1 and b"the-old-word" not in data
    monkeypatch.setenv("WORD", "new")
    with release(tmp_path / "after", _release(BOUND[kind], "new")) as module:
        module.start("new")
        assert read(data).handler.function() == ("old", "new")


def test_a_literal_that_is_bound_where_nobody_sees_it_is_no_constant(tmp_path: Path) -> None:
    files = {"server.py": "import state\ndef handler(): return said(), state.url", "state.py": "url = ''"}
    with release(tmp_path / "before", _release(files, "old")) as module:
        vars(module.state)["url"] = "the-old-word"
        data = codes().write(registered(module.handler))
    with release(tmp_path / "after", _release(files, "new")) as module:
        vars(module.state)["url"] = "new"
        assert read(data).handler.function() == ("old", "new")
