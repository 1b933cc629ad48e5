"""`make version` and `make release`: one version everywhere, the right section of the changelog, and no tag unless
every step has succeeded."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest

from release import Refused, changelog, images, places, steps
from release.__main__ import main

ROOT = Path(__file__).parents[2]
CHANGELOG = """# Changelog

## [Unreleased]

### Added

- A thing.

## [0.0.2] - 2026-11-02

- Older.

## [0.0.1]

- Without a day.
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the files that have the version, and a changelog with something unreleased."""
    for name in {*(name for name, _ in places.PLACES), *images.FILES}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def digest(image: str) -> str:
    """Stands in for a registry."""
    return f"sha256:{hashlib.sha256(image.encode()).hexdigest()}"


def version(tree: Path, new: str) -> int:
    """`make version` where registries answer."""
    return main(["version", new], tree, digest)


def test_a_section_without_its_heading() -> None:
    """Also the last one of the page. One without a day is not a release's, and [Unreleased] is none."""
    assert changelog.section(CHANGELOG, "0.0.2") == "- Older.\n"
    assert changelog.section(CHANGELOG.replace("[0.0.1]", "[0.0.1] - 2026-11-01"), "0.0.1") == "- Without a day.\n"
    for missing in ("0.0.1", "0.0.3", "0.0", "Unreleased"):
        with pytest.raises(Refused, match="make version"):
            changelog.section(CHANGELOG, missing)


def test_what_was_unreleased_becomes_a_section() -> None:
    after = changelog.opened(CHANGELOG, "0.3.0", date(2026, 11, 23))
    assert "## [Unreleased]\n\n## [0.3.0] - 2026-11-23\n\n### Added\n\n- A thing.\n\n## [0.0.2]" in after
    assert changelog.section(after, "0.3.0") == "### Added\n\n- A thing.\n"
    for text, version in ((CHANGELOG, "0.0.2"), (after, "0.4.0"), ("# Changelog\n", "0.4.0")):
        with pytest.raises(Refused, match="nothing was written"):
            changelog.opened(text, version, date(2026, 11, 23))


def test_this_tree_states_one_version() -> None:
    """Each place is there, so none is forgotten at the next release."""
    assert places.version(ROOT)


def test_no_place_is_left_out() -> None:
    """Each file that names an image or a page of this version is among the places."""
    named = re.compile(rf"framehold/(?:node|router|loadtest):{places.version(ROOT)}|framehold/v{places.version(ROOT)}/")
    folders = ("cli", "docs", "examples", "fleet", "helm", "images", "loadtest", "node", "router")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    texts = {str(path.relative_to(ROOT)): path.read_bytes() for path in files if "__pycache__" not in path.parts}
    found = {name for name, text in texts.items() if named.search(text.decode("utf-8", "replace"))}
    assert len(found) > 5
    assert found - {name for name, _ in places.PLACES} == set()


@pytest.mark.parametrize("new", ["7.8.9", "7.8.9rc1"])
def test_a_new_version_is_written_everywhere(new: str, tree: Path) -> None:
    """No file that has the version keeps the old one. A second run finds nothing unreleased."""
    old = places.version(tree)
    assert version(tree, new) == 0
    assert places.version(tree) == new
    assert [name for name, _ in places.PLACES if old in (tree / name).read_text()] == []
    assert f"## [{new}] - 20" in (tree / "CHANGELOG.md").read_text()
    assert version(tree, "7.9.0") == 1
    assert places.version(tree) == new


@pytest.mark.parametrize(
    ("new", "chart"),
    [("7.8.9", "7.8.9"), ("7.8.9a1", "7.8.9-a.1"), ("7.8.9b12", "7.8.9-b.12"), ("7.8.9rc1", "7.8.9-rc.1")],
)
def test_the_chart_has_a_version_that_helm_takes(new: str, chart: str, tree: Path) -> None:
    """SemVer, and in its order. Images keep the package's, and the next version is written over both."""
    assert version(tree, new) == 0
    text = (tree / "helm/framehold/Chart.yaml").read_text()
    assert f"\nversion: {chart}\nappVersion: {new}\n" in text and f"/node:{new}\n" in text
    (tree / "CHANGELOG.md").write_text(CHANGELOG)
    assert version(tree, "7.9.0") == 0
    assert "\nversion: 7.9.0\nappVersion: 7.9.0\n" in (tree / "helm/framehold/Chart.yaml").read_text()


@pytest.mark.parametrize("new", ["", "1.2", "v1.2.3", "1.2.3-rc1", "1.2.3 "])
def test_what_is_no_version_is_not_written(new: str, tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert version(tree, new) == 1
    assert "is no version such as 1.2.3" in capsys.readouterr().err
    assert (tree / "CHANGELOG.md").read_text() == CHANGELOG


def test_images_of_others_get_their_digests(tree: Path) -> None:
    """Wherever a file names one: in values, table and metadata of the chart, in compose.yaml, in Dockerfiles. A later
    version replaces them. A tag of the installation's own replaces tag and digest."""
    before = {name: (tree / name).read_text() for name in images.FILES}

    def later(image: str) -> str:
        return digest(f"{image} later")

    for number, of in enumerate((digest, later)):
        assert main(["version", f"7.8.{number}"], tree, of) == 0
        (tree / "CHANGELOG.md").write_text(CHANGELOG)
        for image, names in images.IMAGES.items():
            tag = image.partition(":")[2]
            for name in names:
                stated = re.findall(rf"{tag}\S*?(?=[`\s])", (tree / name).read_text())
                assert stated and set(stated) == {f"{tag}@{of(image)}"}, name
        images.check(tree)
    assert "ARG BASE=python:3.11-slim-bookworm@sha256:" in (tree / "node/Dockerfile").read_text()
    lines = {name: len(text.splitlines()) for name, text in before.items()}
    assert {name: len((tree / name).read_text().splitlines()) for name in images.FILES} == lines


def test_each_image_of_others_is_known() -> None:
    """What the chart, compose.yaml and the Dockerfiles name, and nobody here builds."""
    folders = ("helm/framehold", "node", "router", "loadtest", "images")
    paths = [path for name in folders for path in (ROOT / name).rglob("*") if path.suffix in (".yaml", "", ".md")]
    text = "\n".join(path.read_text("utf-8") for path in [*paths, ROOT / "compose.yaml"] if path.is_file())
    named = set(re.findall(r"(?m)^\s*-?\s*(?:image:|ARG BASE=|FROM) *([\w./-]+:[\w.-]+)", text))
    values = (ROOT / "helm/framehold/values.yaml").read_text("utf-8")
    named |= {":".join(each) for each in re.findall(r"repository: (\S+)\n(?: +#.*\n)* +tag: ([\w.-]+)", values)}
    assert {image for image in named if not image.startswith("framehold/")} == set(images.IMAGES)


def test_without_an_answer_of_the_registry_nothing_is_written(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_text() for path in tree.rglob("*") if path.is_file()}

    def silent(image: str) -> str:
        if image.startswith("haproxy"):
            raise Refused(f"no digest of {image}")
        return digest(image)

    assert main(["version", "7.8.9"], tree, silent) == 1
    assert "no digest of haproxy:3.2-alpine" in capsys.readouterr().err
    assert {path: path.read_text() for path in before} == before


def test_an_image_that_is_named_otherwise_is_missed(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tag that was changed in one file alone would keep its old digest in the others."""
    compose = tree / "compose.yaml"
    compose.write_text(compose.read_text().replace("9.1.2-alpine", "9.2.0-alpine"))
    assert version(tree, "7.8.9") == 1
    assert "compose.yaml does not name valkey/valkey:9.1.2-alpine; nothing was written" in capsys.readouterr().err
    assert "7.8.9" not in (tree / "pyproject.toml").read_text()


@pytest.mark.parametrize("name", ["helm/framehold/values.yaml", "router/Dockerfile"])
def test_without_a_digest_nothing_is_built(name: str, tree: Path) -> None:
    assert version(tree, "7.8.9") == 0
    path = tree / name
    path.write_text(re.sub("@sha256:[0-9a-f]{64}", "", path.read_text()))
    commands = Commands(tree)
    with pytest.raises(Refused, match=f"without a digest: .* in {name}.*; nothing was built"):
        steps.make(tree, commands)
    assert commands.ran == []


def test_places_that_differ_are_named(tree: Path) -> None:
    chart = tree / "helm/framehold/Chart.yaml"
    chart.write_text(chart.read_text().replace("\nversion: ", "\nversion: 9"))
    with pytest.raises(Refused, match=r"Chart\.yaml: version: "):
        places.version(tree)


class Commands:
    """Stands in for the programs of a release: notes what was run, and leaves what each would leave."""

    def __init__(self, tree: Path, changed: str = "", tags: str = "", fails: str = "", says: str = "") -> None:
        self.version = places.version(tree)
        self.ran: list[str] = []
        self.message = ""
        self._changed, self._tags, self._fails = changed, tags, fails
        self._says = says or f"framehold {self.version}"

    def __call__(self, command: Sequence[str], folder: Path) -> str:
        line = " ".join(command)
        self.ran.append(line)
        if self._fails and self._fails in line:
            raise Refused(f"{self._fails} failed")
        if " -m build " in line:
            name = "framehold_loadtest" if command[-1].endswith("loadtest") else "framehold"
            dist = folder / "dist"
            dist.mkdir(exist_ok=True)
            for kind in ("-py3-none-any.whl", ".tar.gz"):
                (dist / f"{name}-{self.version}{kind}").write_text(name)
        if "cyclonedx_py" in line:
            (folder / command[command.index("--output-file") + 1]).write_text("{}")
        if command[:2] == ["git", "tag"] and "--annotate" in command:
            self.message = (folder / command[-1]).read_text()
        return {"git status --porcelain": self._changed}.get(line) or (
            self._tags if line.startswith("git tag --list") else self._says if line.endswith("--version") else ""
        )

    @property
    def tagged(self) -> bool:
        return any("--annotate" in line for line in self.ran)


def test_a_release_is_built_checked_listed_and_tagged(tree: Path) -> None:
    """In this order. The tag's message is the changelog's section."""
    assert version(tree, "7.8.9") == 0
    commands = Commands(tree)
    steps.make(tree, commands)
    order = ("git status", "git tag --list v7.8.9", "-m build", "-m build", "twine check --strict", "-m venv")
    more = ("-m pip", "framehold --version", "cyclonedx_py environment", "git tag --annotate v7.8.9")
    assert [part for part, line in zip((*order, *more), commands.ran, strict=True) if part not in line] == []
    assert commands.message == "### Added\n\n- A thing.\n"
    checked = commands.ran[4]
    for name in ("framehold-7.8.9-py3-none-any.whl", "framehold-7.8.9.tar.gz", "framehold_loadtest-7.8.9.tar.gz"):
        assert f"/dist/{name}" in checked
    sums = (tree / "dist/SHA256SUMS").read_text().splitlines()
    assert {line.split()[1] for line in sums} == {
        "release-notes.txt",
        "framehold-7.8.9-py3-none-any.whl",
        "framehold-7.8.9.cdx.json",
        "framehold-7.8.9.tar.gz",
        "framehold_loadtest-7.8.9-py3-none-any.whl",
        "framehold_loadtest-7.8.9.tar.gz",
    }


@pytest.mark.parametrize(
    ("how", "why", "built"),
    [
        ({"changed": " M README.md"}, "README.md", False),
        ({"tags": "v7.8.9"}, "there is a tag v7.8.9 already", False),
        ({"fails": "twine"}, "twine failed", True),
        ({"fails": "pip"}, "pip failed", True),
        ({"says": "framehold 0.0.1"}, "the installed wheel says 'framehold 0.0.1'", True),
        ({"fails": "cyclonedx"}, "cyclonedx failed", True),
    ],
)
def test_nothing_is_tagged_unless_each_step_succeeds(how: dict[str, str], why: str, built: bool, tree: Path) -> None:
    assert version(tree, "7.8.9") == 0
    commands = Commands(tree, **how)
    with pytest.raises(Refused, match=why):
        steps.make(tree, commands)
    assert not commands.tagged
    assert (tree / "dist").exists() is built


def test_a_program_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"false: .* nothing was tagged"):
        steps.run(["false"], tmp_path)
    with pytest.raises(Refused, match="no-such-program"):
        steps.run(["no-such-program"], tmp_path)
