"""docs/kubernetes.md can be followed: its values render, its names are those of the chart, its commands exist.

The table of README.md says of each command whether it was checked, and how; what only a cluster could show is `not run`
there.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

import pytest
import typer

from framehold_cli.commands import app
from tests.helm.chart.render import secrets_of
from tests.helm.chart.schemas import CUSTOM, RELEASES, faults
from tests.helm.docs import named, page, releases
from tests.helm.docs.page import Command
from tests.helm.runbook import ROOT

pytestmark = pytest.mark.chart

COMMANDS = page.commands()
HOWS = ("drilled", "rendered", "run", "rehearsed", "not")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def of(program: str) -> list[Command]:
    """All commands of one program."""
    return [command for command in COMMANDS if command.words[0] == program]


def expanded(word: str) -> str:
    """With the page's registry."""
    return word.replace("$REGISTRY", "registry.example.com")


def test_the_page_is_read_as_it_is_meant() -> None:
    assert len(COMMANDS) > 60 and {command.words[0] for command in COMMANDS} >= set(page.PROGRAMS)
    assert ("framehold", "keys", "new") in [command.words for command in COMMANDS]
    assert page.files()[-1]["auth"] == {"existingSecret": "framehold-auth"}


@pytest.mark.parametrize("number", range(len(page.files())))
def test_what_stands_in_fleet_yaml_after_each_block_renders(number: int) -> None:
    text = page.files()[number]
    assert releases.unknown(text) == []
    made = releases.rendered(text)
    plain = [each for each in made.objects if each["kind"] not in CUSTOM]
    assert [fault for each in plain for release in (RELEASES[0], RELEASES[-1]) for fault in faults(each, release)] == []


@pytest.mark.parametrize("command", [each for each in of("helm") if releases.makes_release(each)], ids=str)
def test_a_release_is_made_with_values_that_the_chart_has(command: Command) -> None:
    text = releases.values(command)
    assert releases.unknown(text) == []
    made = releases.rendered(text)
    assert releases.folder(command.words[command.words.index("framehold") + 1]).is_dir()
    assert made.one("StatefulSet", "framehold-node")


@pytest.mark.parametrize("number", [at for at, each in enumerate(COMMANDS) if each.words[0] == "kubectl"])
def test_what_kubectl_is_asked_for_is_there(number: int) -> None:
    command = COMMANDS[number]
    made, secrets = releases.standing(number)
    if command.words[1] == "create":
        return
    assert named.missing(command, made, secrets) == [], str(command)


@pytest.mark.parametrize("number", [at for at, each in enumerate(COMMANDS) if "port-forward" in each.words])
def test_a_port_that_is_forwarded_leads_to_a_port_of_its_pods(number: int) -> None:
    made, _ = releases.standing(number)
    _, _, service, ports = COMMANDS[number].words
    spec = made.one("Service", service.removeprefix("service/"))["spec"]
    (port,) = [each for each in spec["ports"] if str(each["port"]) == ports.partition(":")[2]]
    (pods,) = [each for each in made.of("Deployment") if each["spec"]["selector"]["matchLabels"] == spec["selector"]]
    (container,) = pods["spec"]["template"]["spec"]["containers"]
    assert port["targetPort"] in {each["name"] for each in container["ports"]}


def test_a_name_that_nobody_made_would_be_seen() -> None:
    made, _ = releases.standing(len(COMMANDS))
    for text, gone in {
        "kubectl get secret gone": ["Secret gone"],
        "kubectl logs framehold-node-99": ["Pod framehold-node-99"],
        "kubectl rollout status deployment/gone": ["Deployment gone"],
        "kubectl delete pvc data-framehold-store-0": ["PersistentVolumeClaim data-framehold-store-0"],
        "kubectl logs -l app=gone": ["-l app=gone"],
    }.items():
        assert named.missing(Command(tuple(shlex.split(text)), {}), made, set()) == gone


def parsed(words: Sequence[str]) -> None:
    """As `framehold` reads its command line.

    Raises:
        Exception: the parser's own, since there is no such command or option."""
    at, left = typer.main.get_command(app), list(words)
    while left and left[0] in getattr(at, "commands", {}):
        at = getattr(at, "commands", {})[left.pop(0)]
    at.make_context("framehold", left)
    assert not hasattr(at, "commands"), f"no such command: {words}"


@pytest.mark.parametrize("command", of("framehold"), ids=str)
def test_a_command_of_framehold_takes_its_options(command: Command) -> None:
    parsed(command.words[1:])


def test_secrets_that_values_name_are_made_before() -> None:
    made, secrets = releases.standing(len(COMMANDS))
    (pod,) = (each["spec"]["template"]["spec"] for each in made.of("StatefulSet"))
    read = secrets_of(pod).values()
    wanted = {name for name, _ in read} | {each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each}
    assert wanted == secrets
    keys = {
        word for command in of("kubectl") for word in re.findall(r"--from-(?:literal|file)=([\w.-]+)", str(command))
    }
    assert read and {key for _, key in read} <= keys


def test_a_patch_of_a_secret_is_json_and_changes_a_key_that_is_there() -> None:
    text = [json.loads(each) for command in of("kubectl") for each in command.options("-p")]
    assert [list(each["stringData"]) for each in text] == [["keys"]] * 3


def test_the_images_of_a_release_are_those_that_were_built() -> None:
    built = {expanded(tag) for command in of("docker") if command.words[1] == "build" for tag in command.options("-t")}
    pushed = {expanded(command.words[2]) for command in of("docker") if command.words[1] == "push"}
    loaded = set(next(command.words[3:] for command in of("kind") if command.words[1] == "load"))
    trial = next(command for command in of("helm") if command.words[1] == "install")
    ours = {image for image in releases.images(releases.rendered(releases.values(trial))) if "valkey" not in image}
    assert ours == loaded <= built
    (fleet, *_) = page.files()
    assert releases.images(releases.rendered(fleet)) <= pushed <= built
    (dockerfile,) = page.blocks("dockerfile")
    assert dockerfile.split()[1] in pushed
    for command in of("docker"):
        assert all(releases.folder(file).is_file() for file in command.options("-f"))


def test_each_command_has_its_row() -> None:
    rows = page.rows()
    bare = {str(command) for command in COMMANDS if not any(row.covers(command) for row in rows)}
    assert not bare, "the table says of none of these whether it was checked:\n" + "\n".join(sorted(bare))


def test_each_row_has_a_command_and_says_how_it_was_checked() -> None:
    rows = page.rows()
    assert len(rows) > 10
    for row in rows:
        unused = [each for each in row.beginnings if not any(one.words[: len(each)] == each for one in COMMANDS)]
        assert not unused, f"no command of the page begins so: {unused}"
        assert row.how in HOWS, f"{row}: not one of the words above the table"
        files = re.findall(r"`(tests/[\w/.]+)`", row.by)
        assert bool(files) == (row.how != "not"), f"{row}: checked by what?"
        assert all((ROOT / file).exists() for file in files), f"{row}: no such test"
