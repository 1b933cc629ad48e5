"""What a build of the images is sent."""

from __future__ import annotations

from pathlib import Path

from tests.helm.image import context

ROOT = Path(__file__).parents[3]


def test_a_build_is_sent_the_packages_and_nothing_else(tmp_path: Path) -> None:
    """Neither tests nor what lies about: environments, secrets, caches."""
    sent = context.copy(ROOT, tmp_path / "to")
    tops = {path.partition("/")[0] for path in sent}
    assert tops == {
        "LICENSE",
        "README.md",
        "pyproject.toml",
        "core",
        "store",
        "fleet",
        "router",
        "node",
        "cli",
        "loadtest",
        "images",
    }
    assert "store/framehold_store/scripts/commit.lua" in sent and "node/framehold/py.typed" in sent
    assert not [path for path in sent if path.endswith((".pyc", "Dockerfile")) or "node_modules" in path]
    assert {path for path in sent if path.startswith("images/")} == {
        f"images/{name}.lock" for name in ("build", "loadtest", "runtime")
    }


def test_what_must_not_leave_a_machine_does_not(tmp_path: Path) -> None:
    """By this .dockerignore, wherever it lies."""
    folder = tmp_path / "from"
    for path in (
        ".env",
        ".git/config",
        ".venv/bin/python",
        "node/framehold/__pycache__/a.pyc",
        "core/b.pyc",
        "node/c.py",
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")
    (folder / ".dockerignore").write_text((ROOT / ".dockerignore").read_text())
    assert context.copy(folder, tmp_path / "to") == ["node/c.py"]
