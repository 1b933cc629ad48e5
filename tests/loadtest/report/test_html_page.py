"""The page of a report: one file that needs nothing else, with every figure and a reason in each gap."""

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from framehold_loadtest.report import data, html_page
from framehold_loadtest.report.figures import Picture, drawn
from framehold_loadtest.report.respects import RESPECTS, others

pytestmark = pytest.mark.load

RECORDED = Path(__file__).parents[1] / "recorded"
VOID = {"meta", "img", "source", "link"}


class Page(HTMLParser):
    """What a page holds: its tags with their attributes, the texts of its table cells, and whether its tags nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, text: str) -> None:
        if "td" in self._open:
            self.cells[-1] += text

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module", params=["kill", "tradeoff"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a recorded run was written to."""
    folder = tmp_path_factory.mktemp(request.param) / "made"
    return html_page.write(data.read(RECORDED / f"{request.param}.json"), folder).parent


@pytest.fixture(scope="module")
def text(written: Path) -> str:
    return (written / "report.html").read_text(encoding="utf-8")


def test_the_page_needs_nothing_but_itself(text: str) -> None:
    """No script, no address, no file beside it; what is shown is inlined."""
    found = Page(text)
    assert {tag for tag, _ in found.tags} & {"script", "link", "iframe", "object"} == set()
    sources = [one["src"] for one in found.of("img")]
    assert sources and all(source and source.startswith("data:image/png;base64,") for source in sources)
    style = text[text.index("<style>") : text.index("</style>")]
    assert re.search(r"url\(|@import|https?:", style) is None


def test_every_figure_is_shown_and_lies_beside_the_page(written: Path, text: str) -> None:
    shown = Page(text).of("img")
    assert len(shown) > 3 and all(one["alt"] for one in shown)
    beside = [file.read_bytes() for file in written.glob("*.png")]
    assert sorted(beside) == sorted(inlined(one["src"]) for one in shown)


def test_no_cell_of_a_table_is_empty(text: str) -> None:
    """What has no value says so."""
    assert [cell for cell in Page(text).cells if not cell.strip()] == []


def inlined(source: str | None) -> bytes:
    assert source is not None
    return base64.b64decode(source.partition(",")[2])


def scenario(name: str) -> data.Scenario:
    found = data.read(RECORDED / f"{name}.json")
    assert isinstance(found, data.Scenario)
    return found


def tradeoff() -> data.Tradeoff:
    found = data.read(RECORDED / "tradeoff.json")
    assert isinstance(found, data.Tradeoff)
    return found


def test_a_scenario_that_failed_says_so_first() -> None:
    """In the title, beside its name, and by the failed rules above those that passed."""
    output = html_page.html(scenario("steady"), undrawn())
    assert "<title>steady: FAILED</title>" in output
    rules = output[output.index("<h2>Rules") : output.index('<figure id="load"')]
    assert rules.rindex("FAILED") < rules.index("passed")


def undrawn() -> list[Picture]:
    """A picture without an image for each figure of either page, for a test that reads only its texts."""
    names: tuple[str, ...] = ("load", "resumes", "affinity", "parked", "memory", "overview")
    names += ("faults", "series-rounds", "series-state", "series-load")
    return [Picture(name, name, "", b"", "not drawn") for name in names]


def test_a_scenario_without_rules_has_not_passed() -> None:
    """Nothing was asked of it."""
    assert scenario("kill").passed
    assert not scenario("kill").model_copy(update={"verdicts": []}).passed


def test_a_figure_that_cannot_be_drawn_says_why() -> None:
    """And keeps its place."""
    run = scenario("kill").model_copy(
        update={
            "series": data.Series(t=[], rate=[], p50=[], p99=[], affinity=[]),
            "faults": [],
            "resumes": data.Resumes(),
        }
    )
    output = html_page.html(run, drawn(run))
    for why in ("the run was not sampled", "no call was resumed"):
        assert f"Not available: {why}" in output


def test_text_of_the_run_is_escaped() -> None:
    """A node's name, or an answer in a verdict, is text and no markup."""
    verdict = data.Verdict(name="<script>x</script>", passed=False, wanted="<b>", seen="&")
    run = scenario("kill").model_copy(update={"verdicts": [verdict]})
    output = html_page.html(run, undrawn())
    assert "<script" not in output
    assert "&lt;script&gt;x&lt;/script&gt;" in output


def test_the_trade_off_has_a_value_or_a_reason_for_each_option_condition_and_respect() -> None:
    """Also where the run left a pair out altogether."""
    run = tradeoff()
    run = run.model_copy(update={"cells": [cell for cell in run.cells if cell.option != "G"]})
    output = html_page.html(run, undrawn())
    rows = len(RESPECTS) + len(others(run))
    wanted = rows * len(run.options) * len(run.conditions)
    values = Page(output).cells[-wanted:]
    assert sum("the run did not report it" in cell for cell in values) == rows * len(run.conditions)
    assert f"of {wanted} values measured" in output
