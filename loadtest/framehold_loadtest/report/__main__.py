"""`python -m framehold_loadtest.report report.json [--out DIR]`: the page of a run, made again from its data."""

from __future__ import annotations

import argparse
from pathlib import Path

from framehold_loadtest.report import data, html_page


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m framehold_loadtest.report", description=__doc__)
    parser.add_argument("json", type=Path, help="the report.json of a scenario or of the trade-off")
    parser.add_argument("--out", type=Path, help="the folder to write to; without it, the one that holds the file")
    asked = parser.parse_args()
    print(html_page.write(data.read(asked.json), asked.out or asked.json.parent))


if __name__ == "__main__":
    main()
