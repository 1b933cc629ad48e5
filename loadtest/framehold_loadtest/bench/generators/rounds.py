"""The generator of writes per round: it counts the writes to the store that each round of a call makes.

It makes one call of several questions against Redis. It prints one JSON list with the number of writes of each round,
from the first to the one that ends the call.
"""

from __future__ import annotations

import argparse
import itertools
import json
import secrets

import uvloop

from framehold_loadtest.bench.generators import weather
from framehold_loadtest.bench.generators.in_process import PORT, local, scripted

QUESTIONS = 5


async def _run(port: int) -> list[int]:
    async with local(store_url=f"redis://127.0.0.1:{port}", keys=(secrets.token_hex(32),)) as app:
        call = scripted(0, QUESTIONS)
        # The first call of a process also has the store keep its code.
        await app.asked(call, 1)
        written = [app.writes]
        question = await app.asked(call, 1)
        written.append(app.writes)
        for _ in range(QUESTIONS - 1):
            question = await app.answered(call, question)
            written.append(app.writes)
        weather.check_result(await app.request(weather.second_round(PORT, call, question)), call)
        written.append(app.writes)
        return [after - before for before, after in itertools.pairwise(written)]


def main() -> None:
    """Run the call, and print what it wrote."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="of a Redis")
    print(json.dumps(uvloop.run(_run(parser.parse_args().port))))


if __name__ == "__main__":
    main()
