"""The table of a day as a page of the documentation. Pure: `__main__` calls it, and keeps rows that it did not play."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.fleet.day.recorder import ALERTS, API, DOCTOR, LOGS, PAGE, STATUS, Said
from tests.fleet.day.scenes import Scene
from tests.fleet.day.traffic import Figures

VOICES = {"Status": (API, STATUS, DOCTOR), "Dashboard": (PAGE,), "Alerts": (ALERTS,), "Logs": (LOGS,)}
"""The voices of each column."""
_HEAD = """# What each voice says of a fault

`make day` writes this page; edit `tests/fleet/day/page.py`. Each row is a fleet of its own: three nodes, two routers, a
Redis, traffic, and a Prometheus with the rules of the chart.

A figure is the seconds from the fault to the voice's first true word. *Status*: the last of the API, `framehold
status` and `framehold doctor`. *Alerts*: pending. **silent**: no true word within a minute. **wrong**: a false one.
`-`: none is expected. *Calls*: ended/refused and sent again. The machine has two cores and other work.

"""
_COLUMNS = ("Scene", *VOICES, "Calls", "Remarks")


def page(rows: Mapping[str, str], names: Iterable[str]) -> str:
    """The page: for each name its row, in order."""
    lines = (rows.get(name, _line([name, *("not played" for _ in _COLUMNS[1:-1]), ""])) for name in names)
    return _HEAD + "\n".join([_line(_COLUMNS), _line(["---"] * len(_COLUMNS)), *lines]) + "\n"


def rows(text: str) -> dict[str, str]:
    """The rows of a page, by the names of their scenes."""
    lines = [line for line in text.splitlines() if line.startswith("| ")][2:]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines}


def row(scene: Scene, first: Mapping[str, float], expected: set[str], false: list[Said], met: Figures) -> str:
    """The row of a scene that was played."""
    cells = (_cell([one for one in voices if one in expected], voices, first, false) for voices in VOICES.values())
    said = [f"{one.voice} said after {one.at:.1f} s: {one.text.strip()[:160]!r}" for one in false[:3]]
    return _line([scene.name, *cells, f"{met.ended}/{met.refused}", "; ".join([scene.because, *said]).strip("; ")])


def left_out(scene: Scene, reason: str) -> str:
    """The row of a scene that was not."""
    return _line([scene.name, *("-" for _ in VOICES), "-", f"left out: {reason}"])


def _cell(expected: list[str], voices: Iterable[str], first: Mapping[str, float], false: list[Said]) -> str:
    if any(one.voice in voices for one in false):
        return "**wrong**"
    if not expected:
        return "-"
    return "**silent**" if set(expected) - first.keys() else f"{max(first[one] for one in expected):.1f}"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + " |"
