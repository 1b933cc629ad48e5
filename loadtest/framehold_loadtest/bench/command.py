"""What programs that measure have in common: their options, their run, and their exit code."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from framehold_loadtest import table
from framehold_loadtest.local.process import NotAvailable


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of a program that measures, keeps its raw figures and fills pages.

    They are its own options (`only` among them), and `json`, `page` and `load`: the file that it takes figures from
    instead of measuring.
    """
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every raw figure to PATH")
    table.add_pages(parser)
    parser.add_argument(
        "--from", type=Path, metavar="PATH", dest="load", help="run nothing: take the figures that --json wrote there"
    )
    options = parser.parse_args()
    if options.page and options.only and not options.load:
        parser.error("--page shows a whole run; leave --only out")
    for page in options.page:
        if not page.is_file():
            parser.error(f"there is no page {page}")
    return options


def play(
    options: argparse.Namespace,
    program: str,
    measure: Callable[[], dict[str, Any]],
    shown: Callable[[Mapping[str, Any]], str],
    parts: Callable[[Mapping[str, Any]], Mapping[str, str]],
) -> int:
    """Measure, or take what an earlier run has measured; show it, keep it, and fill pages.

    The exit code is 1 if a call had an error or something could not be measured, 2 if this machine cannot run it at
    all, or a page can't be filled.
    """
    try:
        measured = json.loads(options.load.read_text()) if options.load else _run(measure)
        if options.json:
            options.json.write_text(json.dumps(measured, indent=2) + "\n")
        print(shown(measured))
        if options.page:
            table.fill(options.page, program, parts(measured))
    except (NotAvailable, OSError, ValueError) as error:
        print(f"{program.rpartition('.')[2]}: {error}", file=sys.stderr)
        return 2
    chosen = options.only or measured
    return int(any(map(_incomplete, (measured[name] for name in chosen if name in measured))))


def _run(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    if sys.platform != "linux":
        raise NotAvailable("needs Linux, for /proc and for pinning processes to cores")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return measure()


def _incomplete(section: Any) -> bool:
    if not isinstance(section, dict) or "not_available" not in section:
        return False  # the machine, or how long it took
    return bool(section["not_available"]) or any(row.get("errors") for row in section.get("rows", []))
