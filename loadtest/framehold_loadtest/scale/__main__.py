"""`python -m framehold_loadtest.scale`: print the tables, or put them on pages.

Exit code 2 if a file that was named can't be read, or a page can't be filled.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from framehold_loadtest import table
from framehold_loadtest.scale.costs import Costs
from framehold_loadtest.scale.tables import PROGRAM, tables

SEED = 1


def main() -> int:
    """Work it out and show it."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description="How large, and what gives way.")
    parser.add_argument(
        "--bench", type=Path, metavar="PATH", help="take the costs from this `bench --json`, as far as it has them"
    )
    parser.add_argument("--seed", type=int, default=SEED, help="of what is drawn at random (default: %(default)s)")
    table.add_pages(parser)
    options = parser.parse_args()
    try:
        costs = Costs.of_bench(json.loads(options.bench.read_text())) if options.bench else Costs()
        found = tables(costs, options.seed)
        if options.page:
            table.fill(options.page, PROGRAM, found)
            return 0
    except (OSError, ValueError) as error:
        print(f"scale: {error}", file=sys.stderr)
        return 2
    for name, text in found.items():
        print(f"## {name}\n\n{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
