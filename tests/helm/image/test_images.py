"""The images: their steps carried out as written, and what they describe started as a cluster starts it. There is no
engine for containers here; namespaces give each process a read-only root, a user and a network as one would."""

from __future__ import annotations

import hashlib
import json
import re
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

from tests.helm.chart.render import VERSION
from tests.helm.image import context, dockerfile, root
from tests.helm.image.rehearsal import Builder, Image
from tests.structure.rooms import FRAMEHOLD

# A commit seldom breaks an image; tests/helm/image has what is in its folders, and how `make kube` builds it.
pytestmark = [pytest.mark.chart, pytest.mark.nightly]

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples/image"
TAG = f"framehold/node:{VERSION}"
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
    context.copy(ROOT, folder)
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
def running(child: subprocess.Popen[str], says: str) -> Iterator[list[str]]:
    """A process that has said that it serves, and must end in good order when it is told to; what it writes."""
    watch = threading.Timer(60, child.kill)
    watch.start()
    reply: list[str] = []
    assert child.stdout is not None
    try:
        for line in child.stdout:
            reply.append(line)
            if says in line:
                break
        else:
            pytest.fail(f"it ended before it said {says!r}: {''.join(reply)}")
        yield reply
        began = time.monotonic()
        child.send_signal(signal.SIGTERM)
        reply += child.communicate(timeout=GRACE)[0].splitlines()
        # It ends as the signal ends a process that has done what it had to do: uvicorn passes it on at last, and the
        # first process of a container tells it in its exit code.
        assert child.returncode in (0, -signal.SIGTERM, 128 + signal.SIGTERM), "\n".join(reply)
        assert time.monotonic() - began < GRACE
    finally:
        watch.cancel()
        child.kill()
        child.wait()


def called(router: Image, network: root.Network, *words: str, answers: str) -> str:
    """What a call from the router's image prints; it must have come to a result."""
    child = router.start(network, ["call", *words], {"FRAMEHOLD_ADMIN_TOKEN": "t" * 20})
    text, _ = child.communicate(answers, timeout=60)
    assert child.returncode == 0, text
    return text


def test_the_node_as_it_is_serves_the_example(node: Image, router: Image, network: root.Network) -> None:
    """ENTRYPOINT and CMD as they are, read-only, as 10001, told its keys alone; SIGTERM ends it."""
    with running(node.start(network, env={"FRAMEHOLD_KEYS": secrets.token_hex(32)}), "serves"):
        text = called(router, network, "book", "restaurant=Luna", answers="3\n\n\n\nAna\n")
    assert "Booked for Ana. Luna, friday evening: a table for 3 by the window" in text


def test_a_server_of_ones_own_on_a_fleet(node: Image, router: Image, builder: Builder, network: root.Network) -> None:
    """Three lines put it in; the router's image steers to it, as it is; and the call is proved."""
    text = (EXAMPLE / "Dockerfile").read_text()
    assert len([step for stage in dockerfile.read(text) for step in stage.steps]) == 2
    builder.images[TAG] = node
    tools = builder.build(text, EXAMPLE)
    server = "redis-server --port 6379 --bind 127.0.0.1 --daemonize no --save"
    store = [*network.inside, *server.split(), ""]
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
        output = called(router, network, "tickets", "film=Metropolis", "--prove", answers="4\n")
    assert "Reserved: 4 x Metropolis" in output and "all on node-0" in output


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
        result = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
        assert result.returncode == 0, result.stderr
        who, capabilities, *folders = result.stdout.splitlines()
        assert who.startswith("10001 10001") and "0000000000000000" in capabilities, result.stdout
        assert folders == [f"{folder} 30" for folder in ("/srv", "/opt/framehold", "/etc", "/")], result.stdout
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
        assert {*FRAMEHOLD, "uvloop"} <= names
        assert not names & {"pip", "setuptools", "hatchling", "pytest", "ruff", "mypy", "locust", "fastmcp"}
        assert not (image.root / "src").exists() and not (image.root / "dist").exists()
        assert list((image.root / "srv").iterdir()) == []
        size = sum(path.lstat().st_size for path in image.root.glob("opt/framehold/**/*"))
        assert size < 130e6, f"{size / 1e6:.0f} MB"


def test_both_are_built_by_the_same_first_stage() -> None:
    """Word for word, so that it is carried out once. Dependencies come first, by their hashes; then the sources."""
    (built, _), (again, _) = (dockerfile.read((ROOT / room / "Dockerfile").read_text()) for room in ("router", "node"))
    assert built == again
    runs = [step.rest for step in built.steps if step.word == "RUN"]
    installed = [run for run in runs if re.search(r"pip\b.* install ", run)]
    assert all("--require-hashes" in run or "--no-index" in run for run in installed) and len(installed) == 3


def test_what_they_say_of_themselves(node: Image, router: Image) -> None:
    """The release, how to end them, and no shell before the process that is to hear of it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, image in (("node", node), ("router", router)):
        assert image.labels["org.opencontainers.image.version"] == project["version"]
        assert image.labels["org.opencontainers.image.title"] == f"framehold {name}"
        assert (image.folder, image.user, image.signal) == ("/srv", "10001:10001", "SIGTERM")
        assert image.entrypoint[:4] == ["dumb-init", "--single-child", "--", "framehold"]
        assert image.labels["org.opencontainers.image.source"] == "https://github.com/framehold/framehold"
        assert image.labels["org.opencontainers.image.revision"] == "unknown", "it is told by the build"
    assert f"FROM framehold/node:{project['version']}\n" in (EXAMPLE / "Dockerfile").read_text()


def test_a_build_says_what_it_was_made_of() -> None:
    """A release names the base by its digest, the commit and its time."""
    digest = "python@sha256:" + "a" * 64
    for room in ("router", "node"):
        result = {"BASE": digest, "REVISION": "c0ffee", "CREATED": "2026-07-28T00:00:00Z"}
        stages = dockerfile.read((ROOT / room / "Dockerfile").read_text(), result)
        assert {stage.base for stage in stages} == {digest}
        labels = stages[-1].last("LABEL").pairs()
        assert labels["org.opencontainers.image.revision"] == "c0ffee"
        assert labels["org.opencontainers.image.created"] == "2026-07-28T00:00:00Z"


def test_its_list_of_components_is_what_is_installed(node: Image, router: Image) -> None:
    """CycloneDX, made of the image itself: each package of the lock with its version, and no other."""
    locked = dict(re.findall(r"(?m)^([\w.-]+)==([^ \n]+)", (ROOT / "images/runtime.lock").read_text()))
    for image in (node, router):
        listed = json.loads((image.root / "opt/framehold/sbom.cdx.json").read_text())
        assert listed["bomFormat"] == "CycloneDX"
        found = {part["name"].lower().replace("_", "-"): part["version"] for part in listed["components"]}
        assert found.pop("framehold") == "0.1.0"
        assert found.items() <= locked.items() and len(found) > 40


def files(image: Image) -> dict[str, str]:
    """The digest of each file that the build has made, by its path; of a link where it leads to."""
    place = image.root / "opt/framehold"
    paths = [path for path in sorted(place.rglob("*")) if path.is_symlink() or path.is_file()]
    return {
        str(path.relative_to(place)): str(path.readlink())
        if path.is_symlink()
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }


def test_two_builds_hold_the_same_files(node: Image, sources: Path, tmp_path: Path) -> None:
    """Byte for byte, compiled files too."""
    again = Builder(tmp_path).build((ROOT / "node/Dockerfile").read_text(), sources)
    one, other = files(node), files(again)
    assert one.keys() == other.keys() and len(one) > 1000
    assert [path for path in one if one[path] != other[path]] == []
    shutil.rmtree(tmp_path)


def test_a_command_says_nothing_beside_what_it_was_asked(router: Image, network: root.Network) -> None:
    """A broken entry point would be a warning in front of each answer."""
    child = router.start(network, ["keys", "new"])
    text, _ = child.communicate(timeout=60)
    assert child.returncode == 0 and re.fullmatch(r"[0-9a-f]{64}\n", text), text


def test_every_line_of_a_json_log_is_json(node: Image, router: Image, network: root.Network) -> None:
    """From the first one on. And its health is asked as the image says."""
    env = {"FRAMEHOLD_KEYS": secrets.token_hex(32), "FRAMEHOLD_LOG_FORMAT": "json"}
    with running(node.start(network, env=env), "serves") as heard:
        assert health(node, network) == 0
    assert [line for line in heard if not isinstance(json.loads(line), dict)] == []
    assert health(router, network) != 0, "nobody serves any more"


def health(image: Image, network: root.Network) -> int:
    """How the command ends by which an image says whether it is well."""
    words = root.command(image.root, image.health, image.env, image.folder, root.USER, network)
    return subprocess.run(words, capture_output=True, timeout=60, check=False).returncode


def test_the_first_process_reaps_what_others_leave(node: Image, network: root.Network) -> None:
    """A child whose parent has ended becomes a child of the first process; Python would leave it a zombie."""
    orphan = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    if os.fork() == 0: os._exit(0)\n"
        "    time.sleep(0.2); os._exit(0)\n"
        "os.wait(); time.sleep(0.5)\n"
        "pids = [pid for pid in os.listdir('/proc') if pid.isdigit()]\n"
        "states = [open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[0] for pid in pids]\n"
        "print(states.count('Z'))\n"
    )
    words = ["unshare", "--pid", "--fork", "--mount-proc", "dumb-init", "--single-child", "--", "python", "-c", orphan]
    done = subprocess.run(
        root.command(node.root, words, node.env, "/", 0, network),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_the_load_tests_have_an_image_of_their_own(
    router: Image, builder: Builder, sources: Path, network: root.Network
) -> None:
    """On top of the router's: locust with the scenarios; and the router's own image has none of them."""
    builder.images["framehold/router:0.1.0"] = router
    made = builder.build((ROOT / "loadtest/Dockerfile").read_text(), sources)
    child = made.start(network, ["--host", "http://127.0.0.1:1", "--scenario", "nothing"])
    text, _ = child.communicate(timeout=120)
    assert child.returncode == 2 and "invalid choice: 'nothing' (choose from" in text and "steady" in text, text
    assert not list(router.root.glob("opt/framehold/lib/python3.*/site-packages/framehold_loadtest"))
    assert (made.user, made.folder) == ("10001:10001", "/tmp")
