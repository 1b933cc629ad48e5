"""The images: their steps carried out as written, and what they describe started as a cluster starts it. There is no
engine for containers here; namespaces give each process a read-only root, a user and a network as one would."""

from __future__ import annotations

import secrets
import shutil
import signal
import subprocess
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helm.image import dockerfile, rehearsal, root
from tests.helm.image.rehearsal import Builder, Image

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples/image"
TAG = "framehold/node:0.1.0"
GRACE = 20.0
"""Seconds from SIGTERM to the end of a process that has nothing to wait for."""


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    folder = tmp_path_factory.mktemp("images")
    yield Builder(folder)
    # Some hundred MB, which pytest would keep of three runs.
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("context")
    rehearsal.sources(ROOT, folder)
    return folder


@pytest.fixture(scope="module")
def router(builder: Builder, sources: Path) -> Image:
    return builder.build((ROOT / "router/Dockerfile").read_text(), sources)


@pytest.fixture(scope="module")
def node(builder: Builder, sources: Path) -> Image:
    return builder.build((ROOT / "node/Dockerfile").read_text(), sources)


@pytest.fixture
def network() -> Iterator[root.Network]:
    with root.network() as made:
        yield made


@contextmanager
def running(child: subprocess.Popen[str], says: str) -> Iterator[None]:
    """A process that has said that it serves, and must end in good order when it is told to."""
    watch = threading.Timer(60, child.kill)
    watch.start()
    heard: list[str] = []
    assert child.stdout is not None
    try:
        for line in child.stdout:
            heard.append(line)
            if says in line:
                break
        else:
            pytest.fail(f"it ended before it said {says!r}: {''.join(heard)}")
        yield
        began = time.monotonic()
        child.send_signal(signal.SIGTERM)
        said, _ = child.communicate(timeout=GRACE)
        # It ends as the signal ends a process that has done what it had to do: uvicorn passes it on at last.
        assert child.returncode in (0, -signal.SIGTERM), "".join(heard) + said
        assert time.monotonic() - began < GRACE
    finally:
        watch.cancel()
        child.kill()
        child.wait()


def called(router: Image, network: root.Network, *words: str, answers: str) -> str:
    """What a call from the router's image prints; it must have come to a result."""
    child = router.start(network, ["call", *words], {"FRAMEHOLD_ADMIN_TOKEN": "t" * 20})
    said, _ = child.communicate(answers, timeout=60)
    assert child.returncode == 0, said
    return said


def test_the_node_as_it_is_serves_the_example(node: Image, router: Image, network: root.Network) -> None:
    """ENTRYPOINT and CMD as they are, read-only, as 10001, told its keys alone; SIGTERM ends it."""
    with running(node.start(network, env={"FRAMEHOLD_KEYS": secrets.token_hex(32)}), "serves"):
        said = called(router, network, "book", "restaurant=Luna", answers="3\n\n\n\nAna\n")
    assert "Booked for Ana. Luna, friday evening: a table for 3 by the window" in said


def test_a_server_of_ones_own_on_a_fleet(node: Image, router: Image, builder: Builder, network: root.Network) -> None:
    """Three lines put it in; the router's image steers to it, as it is; and the call is proved."""
    text = (EXAMPLE / "Dockerfile").read_text()
    assert len([step for stage in dockerfile.read(text) for step in stage.steps]) == 2
    builder.images[TAG] = node
    tools = builder.build(text, EXAMPLE)
    store = [
        *network.inside,
        "redis-server",
        "--port",
        "6379",
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--daemonize",
        "no",
    ]
    env = {
        "FRAMEHOLD_KEYS": secrets.token_hex(32),
        "FRAMEHOLD_ADMIN_TOKEN": "t" * 20,
        "FRAMEHOLD_STORE_URL": "redis://127.0.0.1:6379",
    }
    mine = {**env, "FRAMEHOLD_ADVERTISE_URL": "http://127.0.0.1:8081", "FRAMEHOLD_NODE_ID": "node-0"}
    redis = subprocess.Popen(store, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with (
        running(redis, "Ready to accept connections"),
        running(tools.start(network, [*tools.command, "--port", "8081"], mine), "serves"),
        running(router.start(network, env=env), "serves"),
    ):
        said = called(router, network, "tickets", "film=Metropolis", "--prove", answers="4\n")
    assert "Reserved: 4 x Metropolis" in said and "all on node-0" in said


def test_packages_of_ones_own_are_installed_as_the_example_says(node: Image, builder: Builder, tmp_path: Path) -> None:
    """Its commented steps, carried out: for the node's interpreter, by a build that is root for so long only."""
    text = (EXAMPLE / "Dockerfile").read_text()
    more = [line.removeprefix("#   ") for line in text.splitlines() if line.startswith("#   ")]
    wanted = more[: more.index("USER 10001:10001") + 1]
    first, *rest = text.splitlines()
    (tmp_path / "requirements.txt").write_text("iniconfig\n")
    (tmp_path / "server.py").write_text("")
    builder.images[TAG] = node
    made = builder.build("\n".join([first, *wanted, *rest]), tmp_path)
    assert list(made.root.glob("opt/framehold/lib/python3.*/site-packages/iniconfig"))
    assert (made.user, made.command) == ("10001:10001", ["server.py"])


_LOOK = """
import os, pathlib
print(os.getuid(), os.getgid(), os.getgroups())
print([line for line in open("/proc/self/status") if line.startswith("CapEff")])
for folder in ("/srv", "/opt/framehold", "/etc", "/"):
    try:
        pathlib.Path(folder, "x").write_text("x")
        print("wrote to", folder)
    except OSError as error:
        print(folder, error.errno)
pathlib.Path("/tmp/x").write_text("x")
pathlib.Path.home().joinpath("y").write_text("y")
"""


def test_its_user_can_write_nowhere_but_in_tmp(node: Image, router: Image) -> None:
    """Neither by permission nor by mount; its home is there too."""
    for image in (node, router):
        words = root.command(image.root, ["python", "-c", _LOOK], image.env, image.folder, root.USER)
        told = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
        assert told.returncode == 0, told.stderr
        who, capabilities, *folders = told.stdout.splitlines()
        assert who.startswith("10001 10001") and "0000000000000000" in capabilities, told.stdout
        assert folders == [f"{folder} 30" for folder in ("/srv", "/opt/framehold", "/etc", "/")], told.stdout
        owned = [
            path
            for path in image.root.glob("opt/framehold/**/*")
            if path.lstat().st_mode & 0o022 and not path.is_symlink()
        ]
        assert owned == []


def test_an_image_holds_what_runs_and_no_more(node: Image, router: Image) -> None:
    """No sources, no installer, no wheel, nothing of a development; and it is small."""
    for image in (node, router):
        packages = next(image.root.glob("opt/framehold/lib/python3.*/site-packages"))
        names = {path.name.partition("-")[0] for path in packages.iterdir()}
        assert {"framehold", "framehold_core", "framehold_store", "framehold_router", "uvloop"} <= names
        assert not names & {"pip", "setuptools", "hatchling", "pytest", "ruff", "mypy", "locust", "fastmcp"}
        assert not (image.root / "src").exists() and not (image.root / "dist").exists()
        assert list((image.root / "srv").iterdir()) == []
        size = sum(path.lstat().st_size for path in image.root.glob("opt/framehold/**/*"))
        assert size < 130e6, f"{size / 1e6:.0f} MB"


def test_both_are_built_by_the_same_first_stage() -> None:
    """Word for word, so that it is carried out once; and of the sources, which are there before anything installs."""
    (built, _), (again, _) = (dockerfile.read((ROOT / room / "Dockerfile").read_text()) for room in ("router", "node"))
    assert built == again
    words = [step.word for step in built.steps]
    assert words.index("RUN") > max(place for place, word in enumerate(words) if word == "COPY")


def test_what_they_say_of_themselves(node: Image, router: Image) -> None:
    """The release, how to end them, and no shell before the process that is to hear of it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, image in (("node", node), ("router", router)):
        assert image.labels["org.opencontainers.image.version"] == project["version"]
        assert image.labels["org.opencontainers.image.title"] == f"framehold {name}"
        assert (image.folder, image.user, image.signal) == ("/srv", "10001:10001", "SIGTERM")
        assert image.entrypoint[0] == "framehold"
    assert f"FROM framehold/node:{project['version']}\n" in (EXAMPLE / "Dockerfile").read_text()
