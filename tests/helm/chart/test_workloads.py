"""What a pod is told, where it depends on several values, on names, or on an upgrade. Golden files have the rest."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from framehold.config import Settings
from framehold_router.config import RouterSettings
from framehold_store.keys import Keys
from tests.helm.chart.render import CHART, VERSION, Object, Rendered, render
from tests.helm.image import dockerfile
from tests.helm.runbook import ROOT

pytestmark = pytest.mark.chart

NODE, ROUTER = ("StatefulSet", "fleet-framehold-node"), ("Deployment", "fleet-framehold-router")
MADE: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "fleet-more"},
    "data": {"url": "http://fleet-framehold.prod/mcp"},
}
TEXT = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-more
data:
  url: http://{{ include "framehold.fullname" . }}.{{ .Release.Namespace }}/mcp
"""


def _pod(rendered: Rendered, kind: str, name: str) -> Object:
    spec: Object = rendered.one(kind, name)["spec"]["template"]["spec"]
    return spec


def _env(rendered: Rendered, kind: str, name: str) -> dict[str, Any]:
    return {each["name"]: each.get("value") for each in _pod(rendered, kind, name)["containers"][0]["env"]}


def _read(kind: type[Any], env: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The settings of a process that is started with that environment, of what the chart itself says; without the
    files of its pod."""
    for name, value in env.items():
        if value is not None and "$(" not in value and name != "FRAMEHOLD_SECRETS_DIR":
            monkeypatch.setenv(name, value)
    return kind()


def test_without_values_a_process_has_the_settings_that_it_has_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = render()
    differ = {"namespace", "log_format", "allowed_hosts", "allowed_origins", "node_id", "admin_port"}
    for kind, where in ((Settings, NODE), (RouterSettings, ROUTER)):
        result = _read(kind, _env(rendered, *where), monkeypatch).model_dump(exclude=differ)
        with monkeypatch.context() as without:
            for name in _env(rendered, *where):
                without.delenv(name, raising=False)
            assert result == kind().model_dump(exclude=differ)


@pytest.mark.parametrize(
    ("hook", "node", "router"),
    [({}, 50, 20), ({"sleep": {"seconds": 100}}, 150, 115), ({"exec": {"command": ["true"]}}, 50, 20)],
)
def test_the_sleep_of_a_prestop_is_part_of_the_grace(hook: Object, node: int, router: int) -> None:
    """Kubernetes counts from the order to end. The chart can't know how long a command takes."""
    own = {"lifecycle": {"preStop": hook} if hook else {}}
    made = render({"node": own, "router": own, "haproxy": {**own, "enabled": True}})
    proxy = ("Deployment", "fleet-framehold-haproxy")
    graces = [_pod(made, *where)["terminationGracePeriodSeconds"] for where in (NODE, ROUTER, proxy)]
    assert graces == [node, router, router]
    config = made.one("ConfigMap", "fleet-framehold-haproxy")["data"]["haproxy.cfg"]
    assert "hard-stop-after 10s" in config


def test_an_update_of_another_type_has_no_rolling_update() -> None:
    """Kubernetes refuses the two together."""
    made = render({"router": {"updateStrategy": {"type": "Recreate"}}})
    assert made.one(*ROUTER)["spec"]["strategy"] == {"type": "Recreate"}


def test_no_two_fleets_share_a_corner_of_the_store_whatever_their_names_are() -> None:
    """As `prod-a` and `framehold` would with `prod` and `a-framehold`, if a hyphen were between them."""
    corners = []
    for name, space in (("framehold", "prod-a"), ("a", "prod"), ("b", "prod"), ("a", "test"), ("c", "x" * 63)):
        rendered, full = render(name=name, namespace=space), name if name == "framehold" else f"{name}-framehold"
        node, router = (
            _env(rendered, kind, f"{full}-{part}")["FRAMEHOLD_NAMESPACE"]
            for kind, part in (("StatefulSet", "node"), ("Deployment", "router"))
        )
        assert node == router and len(node) <= 63
        Keys(node)  # it raises, and a process would not start with it
        corners.append(node)
    assert corners[:2] == ["prod-a.framehold", "prod.a-framehold"] and len(set(corners)) == 5


def test_a_node_begins_as_its_image_does() -> None:
    """By the process that reaps what handlers leave behind: zombies would fill the pod's process numbers."""
    image = dockerfile.read((ROOT / "node/Dockerfile").read_text())[-1].last("ENTRYPOINT").words()
    [container] = _pod(render(), *NODE)["containers"]
    begins = image[: image.index("node") + 1]
    assert container["command"][: len(begins)] == begins and begins[0] == "dumb-init"


def test_a_changed_source_rolls_the_nodes() -> None:
    made = [render({"node": {"source": text}}) for text in ("one = 1\n", "two = 2\n")]
    sums = [each.one(*NODE)["spec"]["template"]["metadata"]["annotations"]["checksum/source"] for each in made]
    assert sums[0] != sums[1]


@pytest.mark.parametrize(
    "text",
    ["  # indented\nmcp = 1\n", "\n\n    x\nmcp = 1", "mcp = 1\r\n", "\tx\n\n\n", "\ufeffmcp = '{{ é }} \u2028'"],
)
def test_a_source_arrives_as_it_was_written(text: str) -> None:
    assert render({"node": {"source": text}}).one("ConfigMap", "fleet-framehold-source")["data"] == {"server.py": text}


def test_a_new_version_of_the_chart_alone_replaces_no_pod(tmp_path: Path) -> None:
    """A node serves an image of its user's, and the store one of its own: what is in them has not changed."""
    newer = shutil.copytree(CHART, tmp_path / "framehold")
    about = newer / "Chart.yaml"
    about.write_text(re.sub(r"(?m)^(version|appVersion): .*", r"\1: 7.8.9", about.read_text()))
    image = {"repository": "acme/weather", "tag": "1"}
    values = {"auth": {"existingSecret": "own"}, "node": {"image": image, "target": "server.py"}}
    now, then = render(values), render(values, chart=newer)
    assert then.one(*NODE)["metadata"]["labels"]["helm.sh/chart"] == "framehold-7.8.9"
    labels = [
        [made.one("StatefulSet", f"fleet-framehold-{part}")["spec"]["template"]["metadata"]["labels"] for made in both]
        for part in ("node", "store")
        for both in [(now, then)]
    ]
    assert [one == other for one, other in labels] == [True, True]
    assert _pod(now, *NODE) == _pod(then, *NODE)


@pytest.mark.parametrize("text", [None, []], ids=["null", "none"])
def test_what_there_are_several_of_is_spread_unless_told_otherwise(text: list[Object] | None) -> None:
    said = {"topologySpreadConstraints": text}
    rendered = render(dict.fromkeys(("node", "router"), said) | {"haproxy": {"enabled": True, **said}})
    for made in rendered.of("Deployment") + rendered.of("StatefulSet"):
        spread = made["spec"]["template"]["spec"].get("topologySpreadConstraints", [])
        expected = ["kubernetes.io/hostname"] if text is None and made["spec"]["replicas"] > 1 else []
        assert [each["topologyKey"] for each in spread] == expected


def test_a_digest_counts_more_than_a_tag() -> None:
    digest = f"sha256:{'0' * 64}"
    for image, expected in (
        ({}, f"framehold/router:{VERSION}"),
        ({"tag": "edge"}, "framehold/router:edge"),
        ({"tag": f"edge@{digest}"}, f"framehold/router:edge@{digest}"),
        ({"tag": "edge", "digest": digest}, f"framehold/router@{digest}"),
    ):
        assert _pod(render({"router": {"image": image}}), *ROUTER)["containers"][0]["image"] == expected


@pytest.mark.parametrize(
    "given",
    [
        MADE,
        TEXT,
        {**MADE, "data": {"url": 'http://{{ include "framehold.fullname" . }}.{{ .Release.Namespace }}/mcp'}},
    ],
    ids=["a map", "a text that is a template", "a map with templates in it"],
)
def test_an_object_of_your_own_is_made_beside_the_others(given: Object | str) -> None:
    rendered = render({"extraObjects": [given, {**MADE, "metadata": {"name": "last"}}]})
    assert rendered.one("ConfigMap", "fleet-more") == MADE
    assert rendered.one("ConfigMap", "last")["data"] == MADE["data"]
    assert len(rendered.objects) == len(render().objects) + 2
