"""`python -m framehold_loadtest.report report.json [--out DIR]`: the page of a run, made again from its data.

With `--against OTHER.json` it makes no page: it says which differences two runs of the trade-off name alike. The exit
code is 1 if one is named by one run alone, or the other way round.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from framehold_loadtest.report import data, html_page
from framehold_loadtest.report.agreement import agreement


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m framehold_loadtest.report", description=__doc__)
    parser.add_argument("json", type=Path, help="the report.json of a scenario or of the trade-off")
    parser.add_argument("--out", type=Path, help="the folder to write to; without it, the one that holds the file")
    parser.add_argument("--against", type=Path, help="the report.json of another run of the trade-off")
    asked = parser.parse_args()
    if asked.against:
        raise SystemExit(_against(asked.json, asked.against))
    print(html_page.write(data.read(asked.json), asked.out or asked.json.parent))


def _against(path: Path, other: Path) -> int:
    one, two = data.read(path), data.read(other)
    if not isinstance(one, data.Tradeoff) or not isinstance(two, data.Tradeoff):
        print("one of them is no run of the trade-off; nothing was compared; name the report.json of two runs")
        return 2
    found = agreement(one, two)
    print(f"{len(found.alike)} differences are named alike by both runs")
    for words, differences in (("the other way round", found.opposite), ("by one run alone", found.alone)):
        print(f"{len(differences)} are named {words}")
        print("".join(f"  {line}\n" for line in sorted(map(str, differences))), end="")
    return 0 if found.whole else 1


if __name__ == "__main__":
    main()
