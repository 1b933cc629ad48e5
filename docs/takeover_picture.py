"""Draws the README's moving picture, `takeover.svg`, from a recorded run, `takeover.json`.

    make .venv/.test                                        once: what a run needs
    .venv/bin/python -m docs.takeover_picture --record      make a run on port 8080, record it and draw it: a minute
    .venv/bin/python -m docs.takeover_picture --write       draw the recording that is there
    .venv/bin/python -m docs.takeover_picture --check       exit 1 where the picture is not that of the recording

A run serves the README's server with `framehold up`, calls its tool with `framehold call`, kills the process that asked
with SIGKILL, and answers. The recording has what the terminals showed, each piece with the second at which it came. The
picture shows the same at the same seconds. Of what `framehold up` prints until the fleet is up it has the addresses
alone. A run on a busy machine may be too long for the picture: then nothing is drawn.

The picture has no script: each piece of text becomes visible by a rule of CSS. Where animations are not wanted, or not
known, it shows the end of the run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TypedDict

RECORDING = Path(__file__).with_name("takeover.json")
PICTURE = RECORDING.with_suffix(".svg")

LOOP = 20.0
"""Seconds after which the picture begins again."""
COLUMNS = 104
"""Columns of the terminals, in the run and in the picture."""
PANES = {"call": "terminal 1: the user", "kill": "terminal 2: the accident", "fleet": "terminal 3: the fleet"}
END = 3.0
"""Seconds at least for which the picture shows the end of the run."""


class Recording(TypedDict):
    """`asked` and `took` are process ids: of the process that was killed, and of the one that carried the call on.
    `shown` has second, pane and text of each piece; the second 0 is when the fleet is up."""

    recorded: str
    versions: str
    server: str
    asked: str
    took: str
    shown: list[tuple[float, str, str]]


# ---- drawing: a recording in, an SVG out


@dataclass(frozen=True)
class Piece:
    """Some text of one line in one style, and when it is shown."""

    at: float
    style: str
    text: str


Line = list[Piece]
_TOKEN = re.compile(r"\x1b\[([\d;]*)m|\r*(\n)|([^\x1b\r\n]+)")
_STYLES = {
    "1": "bold",
    "2": "dim",
    "31": "red",
    "32": "green",
    "33": "yellow",
    "34": "blue",
    "35": "pink",
    "36": "cyan",
}

SIZE, ROW, INDENT, WIDTH = 12, 17, 16, 790
"""Pixels: a letter, the distance of two lines, the distance from the left edge, and the whole picture."""
STEPS = (
    ("call", "?", "1  The tool reserves the tea, and asks. Its coroutine waits in the memory of process {asked}."),
    (
        "fleet",
        "died (SIGKILL)",
        "2  kill -9: process {asked} is gone, and the coroutine with it. The user is still thinking.",
    ),
    ("call", "Elm", "3  The user answers. The answer waits until the lease of the dead process (5 s) has run out."),
    (
        "call",
        ", takeover]",
        "4  Process {took} enters the tool again, with what is recorded. The tea was reserved once.",
    ),
)
"""What the picture explains: the pane, the text that shows that it has happened, and the sentence."""
_STYLE = """
text{{font:{size}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}}
text{{fill:#d4d4d4;white-space:pre}}
.bold{{font-weight:bold;fill:#fff}}.dim{{fill:#8f98a3}}.red{{fill:#ff7b72}}.green{{fill:#7ee787}}.yellow{{fill:#e3b341}}
.blue{{fill:#79c0ff}}.cyan{{fill:#76e3ea}}.pink{{fill:#d2a8ff}}
.pane{{fill:#161b22;stroke:#30363d}}.head{{fill:#8f98a3;font-size:11px}}
.step{{font-family:system-ui,-apple-system,"Segoe UI",sans-serif;font-size:14px;fill:#fff}}
.t{{animation:{loop:g}s step-end infinite}}
@media (prefers-reduced-motion:reduce){{.t{{animation:none}}}}
"""


def lines(recording: Recording, pane: str) -> list[Line]:
    """What a terminal shows, in lines of at most COLUMNS."""
    found: list[Line] = [[]]
    style, column = "", 0
    for at, name, text in recording["shown"]:
        for codes, end, letters in _TOKEN.findall(text) if name == pane else ():
            if letters:
                for start, part in _wrapped(letters, column):
                    if start == 0 and column:
                        found.append([])
                    found[-1].append(Piece(at, style, part))
                    column = start + len(part)
            elif end:
                found.append([])
                column = 0
            else:
                style = _style(style, codes)
    return [line for line in found if line and any(piece.text.strip() for piece in line)]


def _wrapped(letters: str, column: int) -> Iterator[tuple[int, str]]:
    """The parts of a text as a terminal breaks it, each with the column where it starts."""
    while letters:
        if column == COLUMNS:
            column = 0
        yield column, letters[: COLUMNS - column]
        letters, column = letters[COLUMNS - column :], COLUMNS


def _style(style: str, codes: str) -> str:
    known = [_STYLES[code] for code in codes.split(";") if code in _STYLES]
    return " ".join([style, *known]).strip() if known else ""


def happened(recording: Recording, pane: str, text: str) -> float:
    """The second at which a pane first shows a text."""
    seen = ""
    for at, name, piece in recording["shown"]:
        seen += re.sub(r"\x1b\[[\d;]*m", "", piece) if name == pane else ""
        if text in seen:
            return at
    raise ValueError(f"the recording never shows {text!r} in {pane!r}; nothing was drawn; record it again")


def drawn(recording: Recording) -> str:
    """The picture of a recording."""
    if (last := recording["shown"][-1][0]) > LOOP - END:
        raise ValueError(f"the run took {last:g} s, too long; nothing was drawn; record it on a quieter machine")
    times: dict[float, str] = {}
    body, top = _steps(recording, times)
    for pane, head in PANES.items():
        rows = lines(recording, pane)
        height = ROW * (len(rows) + 1) + 10
        body += [f'<rect class="pane" x=".5" y="{top + 0.5}" width="{WIDTH - 1}" height="{height}" rx="6"/>']
        body += [f'<text class="head" x="{INDENT}" y="{top + 15}">{head}</text>']
        body += [_line(row, top + 15 + ROW * (number + 1), times) for number, row in enumerate(rows)]
        top += height + 8
    return _page(top - 7, times, body)


def _steps(recording: Recording, times: dict[float, str]) -> tuple[list[str], int]:
    """The sentences, and where the first pane below them begins."""
    height = 22 * len(STEPS) + 12
    body = [f'<rect class="pane" x=".5" y=".5" width="{WIDTH - 1}" height="{height}" rx="6"/>']
    for number, (pane, text, sentence) in enumerate(STEPS):
        shown = _visible(happened(recording, pane, text), times)
        words = escape(sentence.format(**recording), quote=False)
        body += [f'<text class="step{shown}" x="{INDENT}" y="{22 * (number + 1) + 2}">{words}</text>']
    return body, height + 8


def _line(row: Line, y: int, times: dict[float, str]) -> str:
    spans = "".join(_span(piece, times) for piece in row)
    return f'<text x="{INDENT}" y="{y}">{spans}</text>'


def _span(piece: Piece, times: dict[float, str]) -> str:
    classes = f"{piece.style}{_visible(piece.at, times)}".strip()
    return f'<tspan class="{classes}">{escape(piece.text, quote=False)}</tspan>'


def _visible(at: float, times: dict[float, str]) -> str:
    """The classes of what becomes visible at this second: none if it is there from the beginning."""
    return f" t {times.setdefault(at, f'k{len(times)}')}" if at > 0 else ""


def _page(height: int, times: dict[float, str], body: list[str]) -> str:
    rules = (
        f"@keyframes {name}{{0%{{visibility:hidden}}{at / LOOP:.2%},to{{visibility:visible}}}}"
        f".{name}{{animation-name:{name}}}"
        for at, name in times.items()
    )
    title = "A node is killed while a user thinks, and another node goes on with the call"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    style = _STYLE.format(size=SIZE, loop=LOOP).strip()
    text = [head, f"<title>{title}</title>", f"<style>{style}", *rules, "</style>", *body, "</svg>"]
    return "\n".join([*text, ""])


# ---- recording: a fleet, a user and a kill


class Recorder:
    """Terminals of which each piece of output is kept with its second. `pace` scales the pauses of who types."""

    def __init__(self, folder: Path, pace: float) -> None:
        from tests.cli.terminal import Terminal

        self._terminal, self._folder, self._pace = Terminal, folder, pace
        self._open: dict[str, Terminal] = {}
        self._began = asyncio.get_running_loop().time()
        self.shown: list[tuple[float, str, str]] = []

    def begins(self) -> None:
        """From now on seconds are counted, and what was shown is forgotten."""
        self._take()
        self._began = asyncio.get_running_loop().time()
        self.shown.clear()

    async def runs(self, pane: str, command: str) -> None:
        """Type a command in a pane, and run it there."""
        self._note(pane, "$ ")
        for letter in command:
            self._note(pane, letter)
            await self.rests(0.04)
        self._note(pane, "\n")
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin:/usr/sbin"
        own = {"TMPDIR": str(self._folder), "XDG_RUNTIME_DIR": str(self._folder)}
        shell = ["sh", "-c", f"cd {self._folder} && exec {command}"]
        self._open[pane] = self._terminal(shell, PATH=path, COLUMNS=str(COLUMNS), TERM="xterm-256color", **own)

    async def sees(self, pane: str, pattern: str) -> re.Match[str]:
        """Wait until a pane shows text that matches."""
        from tests.kit.processes import until

        def there() -> re.Match[str] | None:
            self._take()
            return re.search(pattern, self.text(pane))

        found: re.Match[str] = await until(there, f"{pattern!r} in {pane}")
        return found

    async def types(self, pane: str, text: str) -> None:
        """Type letters at the terminal of a pane."""
        for letter in text:
            self._open[pane].types(letter)
            await self.rests(0.15)

    async def rests(self, seconds: float) -> None:
        """Pause, as somebody does who reads."""
        end = asyncio.get_running_loop().time() + seconds * self._pace
        while asyncio.get_running_loop().time() < end:
            self._take()
            await asyncio.sleep(0.01)

    def text(self, pane: str) -> str:
        """What a pane shows, without its colours."""
        return re.sub(r"\x1b\[[\d;]*m", "", self._open[pane].seen).replace("\r", "")

    async def ends(self, pane: str) -> None:
        """Press Ctrl-C in a pane, and wait for the end of its command."""
        await self._open[pane].interrupts()
        await self._open[pane].leaves()

    def closes(self) -> None:
        """Kill whatever still runs."""
        for terminal in self._open.values():
            terminal.__exit__()

    def _take(self) -> None:
        for pane, terminal in self._open.items():
            before = len(terminal.seen)
            while terminal.reads():
                pass
            if new := terminal.seen[before:]:
                self._note(pane, new)

    def _note(self, pane: str, text: str) -> None:
        self.shown.append((round(asyncio.get_running_loop().time() - self._began, 2), pane, text))


async def record(folder: Path, up: str = "framehold up server.py", pace: float = 1.0) -> Recording:
    """Serve the README's server from `folder`, call its tool, kill the node that asked, and answer."""
    from tests.tutorials.page import blocks

    server = next(block.text for block in blocks("../README.md") if block.language == "python")
    (folder / "server.py").write_text(server, encoding="utf-8")
    recorder = Recorder(folder, pace)
    try:
        await recorder.runs("fleet", up)
        await recorder.sees("fleet", r"Ctrl-C stops everything\.\n")
        table = re.findall(r"(?m)^(?:framehold is up|  router|  node-\d).*\n", recorder.text("fleet"))
        recorder.begins()
        await recorder.rests(1)
        await recorder.runs("call", "framehold call order item=tea")
        node = (await recorder.sees("call", r"\[(node-\d), start\] .*\n +Street: "))[1]
        await recorder.rests(2.5)
        pids = dict(re.findall(r"(node-\d) .* pid (\d+)", "".join(table)))
        asked = pids[node]
        await recorder.runs("kill", f"kill -9 {asked}")
        await recorder.sees("fleet", rf"{node} died")
        await recorder.rests(1.5)
        await recorder.types("call", "Elm\n")
        took = (await recorder.sees("call", r"\[(node-\d), takeover\] +tea goes to Elm\n"))[1]
        await recorder.sees("fleet", r"taken over .*\n")
        pids[node] = (await recorder.sees("fleet", rf"{node} is back \(pid (\d+)\)\n"))[1]
        await recorder.ends("fleet")
    finally:
        recorder.closes()
    shown = [(0.0, "fleet", "".join([f"$ {up}\n", *table, "  ...\n"])), *recorder.shown]
    return {
        "recorded": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": ", ".join(f"{name} {version(name)}" for name in ("framehold", "mcp")),
        "server": server,
        "asked": asked,
        "took": pids[took],
        "shown": shown,
    }


def main() -> int:
    """Record, write or check; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m docs.takeover_picture", description="Draw the moving picture.")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--record", action="store_true", help="make a run, record it, and draw it")
    mode.add_argument("--write", action="store_true", help="draw the recording that is there")
    mode.add_argument("--check", action="store_true", help="exit 1 where the picture is not that of the recording")
    parser.add_argument("recording", nargs="?", type=Path, default=RECORDING)
    wanted = parser.parse_args()
    if wanted.record:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the fleet is ended, too
        with tempfile.TemporaryDirectory() as folder:
            made = asyncio.run(record(Path(folder)))
        wanted.recording.write_text(json.dumps(made) + "\n", encoding="utf-8")
    present = drawn(json.loads(wanted.recording.read_text(encoding="utf-8")))
    picture = wanted.recording.with_suffix(".svg")
    if not wanted.check:
        picture.write_text(present, encoding="utf-8")
    elif picture.read_text(encoding="utf-8") != present:
        sys.stderr.write(f"{picture.name} is not the picture of {wanted.recording.name}; run it with --write\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
