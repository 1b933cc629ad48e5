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


def test_a_group_of_version_2_has_a_limit_of_its_own(machine: Machine) -> None:
    machine.says("proc/self/cgroup", "0::/system.slice/node.service")
    machine.says("proc/self/mountinfo", V2)
    machine.says("sys/fs/cgroup/system.slice/node.service/memory.max", "536870912")
    assert machine.limit == 512 * MIB


@pytest.mark.parametrize(
    ("whole", "slice_", "own", "least"),
    [("max", "300", "200", 200), ("max", "100", "200", 100), ("50", "max", "max", 50), ("max", "max", "max", None)],
)
def test_the_smallest_limit_of_all_groups_above_counts(
    machine: Machine, whole: str, slice_: str, own: str, least: int | None
) -> None:
    machine.says("proc/self/cgroup", "0::/outer/inner")
    machine.says("proc/self/mountinfo", V2)
    machine.says("sys/fs/cgroup/memory.max", whole)
    machine.says("sys/fs/cgroup/outer/memory.max", slice_)
    machine.says("sys/fs/cgroup/outer/inner/memory.max", own)
    assert machine.limit == least


def test_where_no_group_has_a_limit_half_of_the_machine_is_it(machine: Machine) -> None:
    """A setting counts more than a group, and a group more than the machine."""
    proc = machine.root / "proc"
    assert memory.allowed(None, proc) is None and memory.allowed(5, proc) == 5
    machine.says("proc/meminfo", "MemTotal:        2097152 kB", "MemFree: 1 kB")
    assert memory.allowed(None, proc) == 1024 * MIB
    machine.says("proc/self/cgroup", "0::/a")
    machine.says("proc/self/mountinfo", V2)
    machine.says("sys/fs/cgroup/a/memory.max", "300")
    assert memory.allowed(None, proc) == 300


def test_a_sibling_does_not_count(machine: Machine) -> None:
    machine.says("proc/self/cgroup", "0::/a/b")
    machine.says("proc/self/mountinfo", V2)
    machine.says("sys/fs/cgroup/a/memory.max", "200")
    machine.says("sys/fs/cgroup/a/bb/memory.max", "100")
    assert machine.limit == 200


def test_a_group_of_version_1_counts_with_all_above(machine: Machine) -> None:
    machine.says("proc/self/cgroup", "4:cpu,cpuacct:/other", "3:memory:/docker/abc", "0::/")
    machine.says("proc/self/mountinfo", CPU, V1)
    machine.says("sys/fs/cgroup/cpu/other/memory.limit_in_bytes", "1")
    machine.says("sys/fs/cgroup/memory/memory.limit_in_bytes", ENDLESS)
    machine.says("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "700")
    machine.says("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "900")
    assert machine.limit == 700


@pytest.mark.parametrize("none", [ENDLESS, str(2**63 - 1), str(2**64), "max", "-1", "0", "nonsense", ""])
def test_what_limits_nothing_is_no_limit(machine: Machine, none: str) -> None:
    machine.says("proc/self/cgroup", "3:memory:/", "0::/")
    machine.says("proc/self/mountinfo", V1, V2)
    machine.says("sys/fs/cgroup/memory/memory.limit_in_bytes", none)
    machine.says("sys/fs/cgroup/memory.max", none)
    assert machine.limit is None


def test_a_container_of_version_1_sees_its_own_group_where_all_are_mounted(machine: Machine) -> None:
    """The path is the host's, and what is mounted is that very group."""
    machine.says("proc/self/cgroup", "3:memory:/docker/abc/worker")
    machine.says("proc/self/mountinfo", V1.replace("0:32 /", "0:32 /docker/abc"))
    machine.says("sys/fs/cgroup/memory/memory.limit_in_bytes", "800")
    machine.says("sys/fs/cgroup/memory/worker/memory.limit_in_bytes", "600")
    assert machine.limit == 600


@pytest.mark.parametrize("path", ["/", "/../../elsewhere", "/on/the/host"])
def test_a_container_with_a_namespace_of_its_own_sees_the_limit_at_the_top(machine: Machine, path: str) -> None:
    machine.says("proc/self/cgroup", f"0::{path}")
    machine.says("proc/self/mountinfo", V2)
    machine.says("sys/fs/cgroup/memory.max", "512")
    machine.says("elsewhere/memory.max", "1")
    assert machine.limit == 512


def test_a_mount_with_a_space_in_its_name_is_found(machine: Machine) -> None:
    machine.says("proc/self/cgroup", "0::/")
    machine.says("proc/self/mountinfo", V2.replace("/sys/fs/cgroup", "/a\\040b"))
    machine.says("a b/memory.max", "123")
    assert machine.limit == 123


def test_a_machine_without_cgroups_has_no_limit(machine: Machine) -> None:
    assert machine.limit is None
    machine.says("proc/self/cgroup", "0::/", "broken")
    assert machine.limit is None
    machine.says("proc/self/mountinfo", "", "too short - cgroup2", V2)
    assert machine.limit is None


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


def test_frames_go_above_the_high_mark_down_to_the_low_one() -> None:
    """100 frames weigh 50 MiB: of those, what is between 91 and 80."""
    footprint = Footprint(100 * MIB, 41 * MIB)
    assert seen(footprint, 90, 98) == (90, 0)
    assert seen(footprint, 91, 100) == (91, 22)
    assert seen(footprint, 80, 78) == (80, 0)


def test_once_the_high_mark_was_met_frames_go_until_the_low_one_is() -> None:
    """However many turns it takes; then none until the high mark is met again."""
    footprint = Footprint(100 * MIB, 0)
    assert seen(footprint, 91, 91)[1] == 11
    result = []
    for frames in (88, 84, 81, 80, 85, 90, 91):
        footprint.count(frames)
        result.append(footprint.excess())
    assert result == [8, 4, 1, 0, 0, 0, 11]


def test_pages_that_dropped_frames_left_are_not_used() -> None:
    """RSS stays where it was: no further frame goes for it, nor while new ones fill the pages."""
    footprint = Footprint(100 * MIB, 0)
    assert seen(footprint, 95, 95) == (95, 15)
    assert [seen(footprint, 95, frames) for frames in (80, 70, 85, 90)] == [(80, 0), (70, 0), (85, 0), (90, 0)]


def test_rising_beyond_what_was_seen_is_use() -> None:
    """Frames that came later are heavier than those that went. A little is no sign of it."""
    footprint = Footprint(100 * MIB, 0)
    seen(footprint, 91, 1000)
    assert seen(footprint, 91, 100) == (9, 0)
    assert seen(footprint, 92, 101) == (9, 0)
    assert seen(footprint, 92.5, 100) == (92, 14)


def test_pages_that_were_given_back_are_use_when_they_are_taken_again() -> None:
    footprint = Footprint(100 * MIB, 0)
    seen(footprint, 99, 10_000)
    assert seen(footprint, 20, 10_000) == (20, 0)
    assert seen(footprint, 91, 100) == (91, 13)


def test_frames_that_came_since_the_last_look_count_before_they_are_seen() -> None:
    """Requests come in crowds, and each takes its memory only after it was let in."""
    footprint = Footprint(100 * MIB, 0)
    assert seen(footprint, 89, 89) == (89, 0)
    footprint.count(93)
    assert round(footprint.used / MIB) == 93 and footprint.excess() == 13
    footprint.count(80)
    assert round(footprint.used / MIB) == 80 and not footprint.short


def test_a_passing_height_does_not_make_frames_heavy() -> None:
    """What one large request took is no frame's weight, whoever was there then."""
    footprint = Footprint(100 * MIB, 10 * MIB)
    seen(footprint, 88, 1)
    assert seen(footprint, 40, 1000)[1] == 0
    assert seen(footprint, 91, 2000) == (91, 272)


def test_a_frame_weighs_at_least_a_page() -> None:
    """However little is above the start: not all of them go for nothing."""
    footprint = Footprint(100 * MIB, 95 * MIB)
    assert seen(footprint, 96, 10_000) == (96, 16 * 256)


def test_without_frames_none_goes_and_what_is_left_is_not_used() -> None:
    """An allocator that gave nothing back does not keep an empty node from beginning calls."""
    footprint = Footprint(100 * MIB, 10 * MIB)
    seen(footprint, 99, 1000)
    footprint.look(99 * MIB, 0)
    assert not footprint.short


# The setting


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("123456789", 123456789),
        ("512Mi", 512 * MIB),
        ("2GiB", 2048 * MIB),
        ("1.5Gi", 1536 * MIB),
        ("512M", 512 * 10**6),
    ],
)
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
