"""Bodies drawn from a seed, and what all that reads them makes of them: router, node and SDK must agree."""

import time


def today() -> int:
    """The first seed of the day."""
    return int(time.time() // 86_400) * 1_000_000
