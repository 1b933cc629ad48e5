"""The files in which the version of a release stands.

Each place is a file and the texts round the version in it; a place whose text is missing is an error, so that a file
which was rewritten can't keep an old version. `{chart}` is the version as Helm takes it (SemVer): 1.2.3-rc.1 for
1.2.3rc1."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from release import Refused

PLACES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("pyproject.toml", ('\nversion = "{}"', '"framehold-loadtest=={}"', '"framehold-loadtest[peers]=={}"')),
    ("loadtest/pyproject.toml", ('\nversion = "{}"', '"framehold=={}"')),
    (
        "helm/framehold/Chart.yaml",
        ("\nversion: {chart}\n", "\nappVersion: {}\n", "/v{}/", "/node:{}\n", "/router:{}\n"),
    ),
    ("helm/framehold/values.yaml", ("/blob/v{}/",)),
    ("helm/framehold/README.md", ("/blob/v{}/", "framehold/node:{}\n")),
    ("node/Dockerfile", ("framehold/node:{} ", "/blob/v{}/", 'image.version="{}"')),
    ("router/Dockerfile", ("framehold/router:{} ", "/blob/v{}/", 'image.version="{}"')),
    ("loadtest/Dockerfile", ("/loadtest:{} ", "/router:{}\n", "/blob/v{}/", 'image.version="{}"')),
    ("compose.yaml", ("framehold/node:{}\n", "framehold/router:{}\n")),
    ("helm/framehold/ci/load-values.yaml", ("framehold/loadtest:{}\n",)),
    ("images/README.md", ("framehold/node:{} ",)),
    ("examples/image/Dockerfile", ("framehold/node:{}\n",)),
    ("docs/kubernetes.md", ("framehold/node:{}", "framehold/router:{}")),
)
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")


def version(root: Path) -> str:
    """The version of this tree, which pyproject.toml states.

    Raises:
        Refused: another place states another one."""
    stated: str = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    _texts(root, stated)
    return stated


def write(root: Path, new: str) -> list[str]:
    """Write the version `new` into all places. Returns the files.

    Raises:
        Refused: `new` is no version, or the places don't state one version now."""
    if not _VERSION.fullmatch(new):
        raise Refused(f"{new!r} is no version such as 1.2.3 or 1.2.3rc1; nothing was written")
    texts = _texts(root, old := version(root))
    for name, around in PLACES:
        for text in around:
            texts[name] = texts[name].replace(_filled(text, old), _filled(text, new))
        (root / name).write_text(texts[name], "utf-8")
    return [name for name, _ in PLACES]


def _texts(root: Path, stated: str) -> dict[str, str]:
    """The files' texts by name, each of which states this version wherever it states one."""
    texts = {name: (root / name).read_text("utf-8") for name, _ in PLACES}
    missing = [
        f"{name}: {_filled(text, stated).strip()}"
        for name, around in PLACES
        for text in around
        if _filled(text, stated) not in texts[name]
    ]
    if missing:
        raise Refused(f"these places don't state {stated}, the version of pyproject.toml: {'; '.join(missing)}")
    return texts


def _filled(text: str, stated: str) -> str:
    return text.format(stated, chart=re.sub(r"([a-z]+)(\d+)$", r"-\1.\2", stated))
