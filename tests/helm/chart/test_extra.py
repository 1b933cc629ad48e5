"""Objects of an installation's own, beside the chart's."""

from __future__ import annotations

import pytest

from tests.helm.chart.render import Object, render

pytestmark = pytest.mark.chart

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
