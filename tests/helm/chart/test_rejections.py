"""What can't work is refused before anything is installed, with a sentence that says what is wrong and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from tests.helm.chart.golden import over
from tests.helm.chart.render import CHART, render

pytestmark = pytest.mark.chart

Values = dict[str, Any]
REFUSED = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text(encoding="utf-8"))
WRONG, OUT_OF_RANGE = ([(case["values"], case["says"]) for case in REFUSED[kind]] for kind in ("wrong", "out of range"))

UNNAMED = (
    'objects would be called "1.a-framehold", which no Service may be: a letter first, then small letters, digits and '
    '"-"; give the release another name, or set fullnameOverride'
)


def refused(values: Values, name: str = "fleet") -> list[str]:
    """What the chart says of such values, sentence by sentence."""
    with pytest.raises(helm_python.HelmRenderError) as result:
        render(values, name=name)
    text = str(result.value)
    assert "these values can't be right, and nothing was rendered:" in text
    return re.findall(r"(?m)^- (.+)$", text)


@pytest.mark.parametrize(("values", "sentence"), WRONG, ids=[sentence[:60] for _, sentence in WRONG])
def test_what_is_wrong_is_said_with_what_to_do(values: Values, sentence: str) -> None:
    """That sentence, and no other."""
    assert refused(values) == [sentence]
    assert "; " in sentence


@pytest.mark.parametrize(("values", "told"), OUT_OF_RANGE, ids=[told[:60] for _, told in OUT_OF_RANGE])
def test_what_does_not_exist_or_is_out_of_range_is_refused_by_the_schema(values: Values, told: str) -> None:
    with pytest.raises(helm_python.HelmValuesError, match=re.escape(told)):
        render(values)


def test_all_that_is_wrong_is_told_at_once() -> None:
    wrong = {"auth": {"keys": ["short"]}, "ingress": {"enabled": True}, "node": {"pdb": {"maxUnavailable": 0}}}
    assert [sentence.split()[0] for sentence in refused(wrong)] == [
        "auth.keys[0]",
        "node.pdb.maxUnavailable",
        "ingress.enabled",
    ]


def test_a_release_whose_name_no_service_may_have_is_refused() -> None:
    assert refused({}, name="1.a") == [UNNAMED]


def test_no_sentence_repeats_a_secret() -> None:
    auth = {"keys": ["tell-nobody", "tell nobody"], "adminToken": "tell-nobody"}
    text = refused({"auth": auth, "store": {"url": "tell://nobody"}})
    assert len(text) == 4
    assert "nobody" not in " ".join(text)


def test_every_sentence_of_the_chart_is_seen_here() -> None:
    """A fault that is added to the template without a test has no place in the table."""
    text = (CHART / "templates/_validate.tpl").read_text(encoding="utf-8")
    lines = [line for line in re.sub(r"(?s)\{\{-? ?/\*.*?\*/ ?-?\}\}", "", text).splitlines() if "; " in line]
    sentences = [line for line in lines if not line.startswith("{{-")]
    assert len(sentences) > 35
    for sentence in sentences:
        parts = [re.escape(part) for part in re.split(r"\{\{.*?\}\}", sentence)]
        assert any(re.fullmatch(".+".join(parts), seen) for seen in [UNNAMED, *(seen for _, seen in WRONG)]), sentence


def test_a_value_that_is_nulled_is_none_or_refused_and_never_an_error_of_a_template() -> None:
    """Null is how a value of the chart is taken back."""
    everything: Values = {"haproxy": {"enabled": True}, "metrics": {"prometheusRule": {"enabled": True}}}
    for path in _paths(yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))):
        nulled: Any = None
        for key in reversed(path):
            nulled = {key: nulled}
        try:
            render(over(everything, nulled))
        except helm_python.HelmValuesError:
            continue
        except helm_python.HelmRenderError as error:
            assert "these values can't be right" in str(error), ".".join(path)


def _paths(values: Values, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in values.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from _paths(value, (*above, key))


@pytest.mark.parametrize("values", REFUSED["right"], ids=str)
def test_what_is_just_right_is_not_refused(values: Values) -> None:
    assert render(values).objects
