"""Limits that the system sets for this process."""

from __future__ import annotations


def raise_files() -> None:
    """Raise the soft limit of open files to the hard limit. Each client and each parked stream takes one file, and the
    usual soft limit of 1,024 is reached soon. Failures are ignored."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            # Some systems report an infinite hard limit, and still refuse it as the soft limit.
            return
