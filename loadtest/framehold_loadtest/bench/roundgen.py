"""How many writes to the store each round of a call makes: counted, not timed, in a process of its own.

A call of several questions, one round after the other against Redis. It prints one JSON list: the writes of each round,
the first one and the one that ends included.
"""

from __future__ import annotations

import argparse
import itertools
import json
import secrets

import uvloop

from framehold_loadtest.bench import wire
from framehold_loadtest.bench.local import PORT, local, scripted

QUESTIONS = 5


async def _run(port: int) -> list[int]:
    async with local(store_url=f"redis://127.0.0.1:{port}", keys=(secrets.token_hex(32),)) as app:
        call, written = scripted(0, QUESTIONS), [app.writes]
        question = await app.asked(call, 1)
        written.append(app.writes)
        for _ in range(QUESTIONS - 1):
            question = await app.answered(call, question)
            written.append(app.writes)
        wire.check_result(await app.request(wire.second_round(PORT, call, question)), call)
        written.append(app.writes)
        return [after - before for before, after in itertools.pairwise(written)]


def main() -> None:
    """Run the call, and print what it wrote."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="of a Redis")
    print(json.dumps(uvloop.run(_run(parser.parse_args().port))))


if __name__ == "__main__":
    main()
