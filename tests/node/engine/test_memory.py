"""What a process may hold, as its cgroups say it, and what its frames weigh, as far as RSS teaches it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from framehold.config import Settings, load
from framehold.engine import memory
from framehold.engine.memory import Footprint
from framehold_core.errors import ConfigError

MIB = 1 << 20
ENDLESS = "9223372036854771712"
"""What version 1 says where nothing was set."""
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
V1 = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory"
CPU = "36 31 0:33 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct"


class Machine:
    """A tree of files like Linux's."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def says(self, name: str, *lines: str) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines))

    @property
    def limit(self) -> int | None:
        return memory.limit(self.root / "proc")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# What a process may hold

GROUP, MOUNTS = "proc/self/cgroup", "proc/self/mountinfo"
V2_ROOT, V1_ROOT = "sys/fs/cgroup", "sys/fs/cgroup/memory"
MACHINES: dict[str, tuple[dict[str, tuple[str, ...]], int | None]] = {
    "version 2": (
        {GROUP: ("0::/a.slice/b",), MOUNTS: (V2,), f"{V2_ROOT}/a.slice/b/memory.max": ("536870912",)},
        512 * MIB,
    ),
    "version 2, a sibling does not count": (
        {
            GROUP: ("0::/a/b",),
            MOUNTS: (V2,),
            f"{V2_ROOT}/a/memory.max": ("200",),
            f"{V2_ROOT}/a/bb/memory.max": ("100",),
        },
        200,
    ),
    "version 1, with all above": (
        {
            GROUP: ("4:cpu,cpuacct:/other", "3:memory:/docker/abc", "0::/"),
            MOUNTS: (CPU, V1),
            "sys/fs/cgroup/cpu/other/memory.limit_in_bytes": ("1",),
            f"{V1_ROOT}/memory.limit_in_bytes": (ENDLESS,),
            f"{V1_ROOT}/docker/memory.limit_in_bytes": ("700",),
            f"{V1_ROOT}/docker/abc/memory.limit_in_bytes": ("900",),
        },
        700,
    ),
    "version 1, the path is the host's and what is mounted is that very group": (
        {
            GROUP: ("3:memory:/docker/abc/worker",),
            MOUNTS: (V1.replace("0:32 /", "0:32 /docker/abc"),),
            f"{V1_ROOT}/memory.limit_in_bytes": ("800",),
            f"{V1_ROOT}/worker/memory.limit_in_bytes": ("600",),
        },
        600,
    ),
    "a mount with a space in its name": (
        {GROUP: ("0::/",), MOUNTS: (V2.replace("/sys/fs/cgroup", "/a\\040b"),), "a b/memory.max": ("123",)},
        123,
    ),
    "no groups": ({}, None),
    "no mounts": ({GROUP: ("0::/", "broken")}, None),
    "broken mounts": ({GROUP: ("0::/", "broken"), MOUNTS: ("", "too short - cgroup2", V2)}, None),
}


@pytest.mark.parametrize(("files", "limit"), MACHINES.values(), ids=MACHINES)
def test_the_limit_of_the_groups(machine: Machine, files: dict[str, tuple[str, ...]], limit: int | None) -> None:
    for name, lines in files.items():
        machine.says(name, *lines)
    assert machine.limit == limit


@pytest.mark.parametrize(
    ("whole", "slice_", "own", "least"),
    [("max", "300", "200", 200), ("max", "100", "200", 100), ("50", "max", "max", 50), ("max", "max", "max", None)],
)
def test_the_smallest_limit_of_all_groups_above_counts(
    machine: Machine, whole: str, slice_: str, own: str, least: int | None
) -> None:
    machine.says(GROUP, "0::/outer/inner")
    machine.says(MOUNTS, V2)
    for group, limit in (("", whole), ("/outer", slice_), ("/outer/inner", own)):
        machine.says(f"{V2_ROOT}{group}/memory.max", limit)
    assert machine.limit == least


def test_where_no_group_has_a_limit_half_of_the_machine_is_it(machine: Machine) -> None:
    """A setting counts more than a group, and a group more than the machine."""
    proc = machine.root / "proc"
    assert memory.allowed(None, proc) is None and memory.allowed(5, proc) == 5
    machine.says("proc/meminfo", "MemTotal:        2097152 kB", "MemFree: 1 kB")
    assert memory.allowed(None, proc) == 1024 * MIB
    machine.says(GROUP, "0::/a")
    machine.says(MOUNTS, V2)
    machine.says(f"{V2_ROOT}/a/memory.max", "300")
    assert memory.allowed(None, proc) == 300 and memory.allowed(5, proc) == 5


@pytest.mark.parametrize("none", [ENDLESS, str(2**63 - 1), str(2**64), "max", "-1", "0", "nonsense", ""])
def test_what_limits_nothing_is_no_limit(machine: Machine, none: str) -> None:
    machine.says(GROUP, "3:memory:/", "0::/")
    machine.says(MOUNTS, V1, V2)
    machine.says(f"{V1_ROOT}/memory.limit_in_bytes", none)
    machine.says(f"{V2_ROOT}/memory.max", none)
    assert machine.limit is None


@pytest.mark.parametrize("path", ["/", "/../../elsewhere", "/on/the/host"])
def test_a_container_with_a_namespace_of_its_own_sees_the_limit_at_the_top(machine: Machine, path: str) -> None:
    machine.says(GROUP, f"0::{path}")
    machine.says(MOUNTS, V2)
    machine.says(f"{V2_ROOT}/memory.max", "512")
    machine.says("elsewhere/memory.max", "1")
    assert machine.limit == 512


# What it holds


def test_what_is_resident_is_read_in_pages(machine: Machine) -> None:
    machine.says("proc/self/statm", "9000 300 200 1 0 100 0")
    assert memory.resident(machine.root / "proc") == 300 * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("says", ["", "9000", "a b c"])
def test_a_machine_that_does_not_say_what_is_resident(machine: Machine, says: str) -> None:
    assert memory.resident(machine.root / "proc") is None
    machine.says("proc/self/statm", says)
    assert memory.resident(machine.root / "proc") is None


def test_this_process_is_as_large_as_what_it_keeps() -> None:
    """And what it lets go of is gone, after a trim."""
    # What earlier tests freed would be taken first: twice as much is kept as is asked for.
    memory.trim()
    before = memory.resident()
    if before is None:
        return
    kept = [bytes(range(256)) * 64 for _ in range(8192)]
    full = memory.resident()
    assert full is not None and full - before > 60 * MIB
    kept.clear()
    memory.trim()
    after = memory.resident()
    assert after is not None and full - after > 60 * MIB


# What frames weigh


def seen(footprint: Footprint, resident: float, frames: int) -> tuple[int, int]:
    """MiB that are used, and frames that should go, at so many MiB."""
    footprint.look(int(resident * MIB), frames)
    return round(footprint.used / MIB), footprint.excess()


LOOKS: dict[str, tuple[int, list[tuple[float, int, int, int]]]] = {
    # MiB at the start; then MiB and frames at each look, MiB that are used, frames that should go.
    "from above the high mark to the low one": (41, [(90, 98, 90, 0), (91, 100, 91, 22), (80, 78, 80, 0)]),
    "pages that dropped frames left are not used": (0, [(95, 95, 95, 15), (95, 80, 80, 0), (95, 90, 90, 0)]),
    "a little more is no sign of use": (0, [(91, 1000, 91, 121), (91, 100, 9, 0), (92, 101, 9, 0)]),
    "rising beyond what was seen is use": (0, [(91, 1000, 91, 121), (91, 100, 9, 0), (92.5, 100, 92, 14)]),
    "pages that were given back are use again": (0, [(99, 10_000, 99, 1920), (20, 10_000, 20, 0), (91, 100, 91, 13)]),
    "a passing height is no frame's weight": (10, [(88, 1, 88, 0), (40, 1000, 40, 0), (91, 2000, 91, 272)]),
    "a frame weighs at least a page": (95, [(96, 10_000, 96, 16 * 256)]),
}


@pytest.mark.parametrize(("start", "looks"), LOOKS.values(), ids=LOOKS)
def test_frames_go_for_what_is_used(start: int, looks: list[tuple[float, int, int, int]]) -> None:
    footprint = Footprint(100 * MIB, start * MIB)
    assert [(mib, frames, *seen(footprint, mib, frames)) for mib, frames, _, _ in looks] == looks


def test_once_the_high_mark_was_met_frames_go_until_the_low_one_is() -> None:
    """However many turns it takes; then none until the high mark is met again."""
    footprint = Footprint(100 * MIB, 0)
    assert seen(footprint, 91, 91)[1] == 11
    result = []
    for frames in (88, 84, 81, 80, 85, 90, 91):
        footprint.count(frames)
        result.append(footprint.excess())
    assert result == [8, 4, 1, 0, 0, 0, 11]


def test_frames_that_came_since_the_last_look_count_before_they_are_seen() -> None:
    """Requests come in crowds, and each takes its memory only after it was let in."""
    footprint = Footprint(100 * MIB, 0)
    assert seen(footprint, 89, 89) == (89, 0)
    footprint.count(93)
    assert round(footprint.used / MIB) == 93 and footprint.excess() == 13
    footprint.count(80)
    assert round(footprint.used / MIB) == 80 and not footprint.short


def test_without_frames_none_goes_and_what_is_left_is_not_used() -> None:
    """An allocator that gave nothing back does not keep an empty node from beginning calls."""
    footprint = Footprint(100 * MIB, 10 * MIB)
    seen(footprint, 99, 1000)
    footprint.look(99 * MIB, 0)
    assert not footprint.short


# The setting


@pytest.mark.parametrize(
    ("text", "means"),
    [("123456789", 123456789), ("512Mi", 512 * MIB), ("2GiB", 2048 * MIB), ("1.5Gi", 1536 * MIB), ("5M", 5 * 10**6),
     (" 512Mi ", 512 * MIB), ("512MI", 512 * MIB), ("2 gi", 2048 * MIB)],
)  # fmt: skip
def test_the_limit_is_understood_as_kubernetes_writes_it(
    monkeypatch: pytest.MonkeyPatch, text: str, means: int
) -> None:
    monkeypatch.setenv("FRAMEHOLD_MEMORY_LIMIT", text)
    assert load().memory_limit == means
    assert Settings(memory_limit=means).memory_limit == means


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "5 parsecs", "i"])
def test_a_limit_that_is_none_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("FRAMEHOLD_MEMORY_LIMIT", text)
    with pytest.raises(ConfigError, match=r"FRAMEHOLD_MEMORY_LIMIT is wrong: .*nothing was started"):
        load()
