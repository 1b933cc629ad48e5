"""What all tests share: they run on asyncio alone, since frames are asyncio tasks and the router's transports are
asyncio's; a Redis; the order of files in parallel workers; and the seconds of each file."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.phases import SLOW
from tests.store.server import RedisServer, running

_FILES = 40
"""How many files the list of the slowest names."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """A Redis for every test that only stores things; namespaces keep them apart."""
    with running(RedisServer()) as server:
        yield server


@pytest.fixture
def kept_loggers() -> Iterator[None]:
    """Whatever a test, or a command in this process, makes of the loggers is undone."""
    names = (None, "uvicorn", "uvicorn.access", "uvicorn.error", "fastmcp")
    before = [(one := logging.getLogger(name), one.level, one.handlers[:], one.propagate) for name in names]
    yield
    logging.captureWarnings(False)
    for one, level, handlers, propagate in before:
        one.setLevel(level)
        one.handlers, one.propagate = handlers, propagate


def _terminated(number: int, _: object) -> None:
    # `timeout` sends it twice, to the process and to its group: the second must not interrupt what the first began.
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def pytest_configure(config: pytest.Config) -> None:
    """SIGTERM ends a run as Ctrl-C does: fixtures end the children that they started."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In parallel workers slow files come first: a file stays in one worker, and the last one to start decides when
    the phase ends. The sort is stable, so tests of one file keep their order."""
    if hasattr(config, "workerinput"):
        rank = {file: place for place, file in enumerate(SLOW)}
        items.sort(key=lambda item: rank.get(item.nodeid.partition("::")[0], len(rank)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """With `--durations`: the files that took longest. Their order in `tests.phases.SLOW` is from this list."""
    if not config.getoption("durations"):
        return
    seconds: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.partition("::")[0]] += report.duration
    slowest = sorted(seconds.items(), key=lambda item: -item[1])[:_FILES]
    terminalreporter.section("slowest files")
    for file, took in slowest:
        terminalreporter.write_line(f"{took:8.2f}s {file}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where NO_SKIPS is set, as in CI, a skipped test is a failure: nobody would notice that it never runs."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("NO_SKIPS") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
