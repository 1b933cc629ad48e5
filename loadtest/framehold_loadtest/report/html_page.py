"""One self-contained page: `write` puts report.html, report.json and the figures as PNG into a folder.

Law: the page needs no script, no network and no file beside it. All text is escaped.
"""

from __future__ import annotations

import base64
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from framehold_loadtest.report import scenario_tables, tradeoff_tables
from framehold_loadtest.report.data import Report, Scenario, Tradeoff, facts
from framehold_loadtest.report.figures import Picture, drawn

PAGE, DATA = "report.html", "report.json"


def write(report: Report, folder: Path) -> Path:
    """Write the report into a folder, which is made if need be, and return the page's path.

    Beside the page and report.json are the figures.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DATA).write_text(text(report), encoding="utf-8")
    pictures = drawn(report)
    for picture in pictures:
        if picture.image:
            (folder / f"{picture.name}.png").write_bytes(picture.image)
    page = folder / PAGE
    page.write_text(html(report, pictures), encoding="utf-8")
    return page


def text(report: Report) -> str:
    """The report as JSON. A router reads no more than 512 KiB, so that a trade-off is written without indents."""
    return report.model_dump_json(indent=1 if isinstance(report, Scenario) else None) + "\n"


def html(report: Report, pictures: list[Picture]) -> str:
    """The page's text, with its figures inlined."""
    templates = Environment(
        loader=PackageLoader("framehold_loadtest.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["inlined"] = _inlined
    style = Markup(templates.get_template("page.css").render())  # noqa: S704  # a file of this package
    common = {"report": report, "pictures": {one.name: one for one in pictures}, "style": style, "facts": facts(report)}
    if isinstance(report, Scenario):
        return templates.get_template("scenario.html").render(**common, tables=scenario_tables)
    return templates.get_template("tradeoff.html").render(**common, tables=tradeoff_tables, counts=_counts(report))


def _inlined(image: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(image).decode()


def _counts(tradeoff: Tradeoff) -> dict[str, int]:
    """How many of the page's cells were measured, and how many there are."""
    kinds = [
        entry.kind
        for condition in tradeoff.conditions
        for row in tradeoff_tables.condition(tradeoff, condition).entries[1:]
        for entry in row[1:]
    ]
    return {"all": len(kinds), "measured": sum(kind != "missing" for kind in kinds)}
