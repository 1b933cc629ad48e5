"""What the system lets this process have."""

from __future__ import annotations


def raise_files() -> None:
    """As many open files as this process may have at all: each client and each parked stream takes one, and the usual
    soft limit of 1,024 is soon met."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            # Some systems say that there is no limit, and have one all the same.
            return
