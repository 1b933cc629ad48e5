"""What all tests share: they run on asyncio alone, since frames are asyncio tasks and the router's transports are
asyncio's; a Redis; which files are left out for want of a tool; and the order of files in parallel workers."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.redis_server import RedisServer, running
from tests.stages import budget, counted, marks

_LACKING = pytest.StashKey[set[str]]()
"""Tools that are missing, of files that were left out for it."""


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


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file of which the run selects no test, and a folder of such files, whose conftest may need a tool.

    A run that does not choose by marks goes on without the files of a folder whose tool is missing, and says so.
    """
    expression = config.getoption("markexpr")
    files = marks.test_files(collection_path)
    wanted = [file for file in files if marks.selects(expression, marks.of_file(file))]
    if not expression:
        config.stash.setdefault(_LACKING, set()).update(*map(marks.missing, wanted))
        wanted = [file for file in wanted if not marks.missing(file)]
    return True if files and not wanted else None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> None:
    """A file that was named, or chosen by marks, is not left out: without its tools, the run ends."""
    args = parent.config.args
    wanted = any(".py" not in arg or file_path.name in arg for arg in args)
    if wanted and marks.test_files(file_path) and (tools := marks.missing(file_path)):
        raise pytest.UsageError(f"{file_path.name} needs {', '.join(tools)}; run: make tools")


def pytest_report_collectionfinish(config: pytest.Config) -> str:
    """What was left out of the folders that the command names."""
    lacking = config.stash.get(_LACKING, set()) if any(".py" not in arg for arg in config.args) else ()
    return f"left out: tests that need {', '.join(sorted(lacking))}; `make tools` installs that" if lacking else ""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In parallel workers slow files come first: a file stays in one worker, and the last one to start decides when
    they end. The sort is stable, so tests of one file keep their order."""
    if hasattr(config, "workerinput"):
        took = budget.durations()
        items.sort(key=lambda item: -took.get(item.nodeid.partition("::")[0], 0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write what the tests did for the stage that they belong to."""
    if report := os.environ.get("TESTS_REPORT"):
        counted.write(Path(report), counted.of_reports(terminalreporter.stats))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where NO_SKIPS is set, as in CI, a skipped test is a failure: nobody would notice that it never runs."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("NO_SKIPS") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
