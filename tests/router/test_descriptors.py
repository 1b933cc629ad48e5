"""The descriptors that a process has open are counted, and their end is named in its log."""

from __future__ import annotations

import math
import os
import resource
from pathlib import Path

import pytest

from framehold_fleet.telemetry.descriptors import Descriptors, SpentDescriptors, read


def test_what_is_open_is_counted(tmp_path: Path) -> None:
    """By the size of the folder, or by its entries. The system may say neither."""
    found = read()
    with open(os.devnull):
        assert read() == (found.used + 1 if found.used else None, found.limit)
    assert found.limit in (resource.getrlimit(resource.RLIMIT_NOFILE)[0], None)
    assert read(tmp_path).used is None
    assert not Descriptors(9).are_spent and not Descriptors(limit=9).are_spent and Descriptors(9, 9).are_spent


def test_a_process_that_can_not_even_count_has_none_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: object) -> list[str]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "stat", full)
    found = read()
    assert found.used == found.limit


def test_the_end_is_told_once_and_so_is_that_there_are_some_again(caplog: pytest.LogCaptureFixture) -> None:
    now, used = [100.0], [59]
    watch = SpentDescriptors(lambda: Descriptors(used[0], 60), lambda: now[0])
    with caplog.at_level("INFO"):
        for used[0] in (59, 60, 61, 59):
            watch.look()
    spent, again = caplog.records
    assert spent.levelname == "ERROR" and "all 60 descriptors" in spent.getMessage() and "LimitNOFILE" in spent.message
    assert again.levelname == "INFO" and "59 of 60" in again.getMessage()
    now[0] = 130.0
    assert watch.now() == ((59, 60), 30.0) and SpentDescriptors().now()[1] == math.inf
