"""A fleet of small processes: started in order, kept alive, reported in single lines, and never left running."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from framehold_cli.local.children import Child, Spec, cause
from framehold_cli.local.keeper import Backoff, StartFailed
from framehold_cli.local.supervisor import Pace, Supervisor
from framehold_cli.show.voice import Voice
from framehold_core.errors import ConfigError
from tests.kit.processes import alive, descendants, environment, until

pytestmark = pytest.mark.anyio

QUICK = Pace(start=60, end=5, first=0.01, max_pause=0.05, good_life=60)
WAITS = "import signal; signal.pause()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); " + WAITS


def spec(name: str, program: str, ready: Callable[[], Awaitable[bool]] | None = None, **options: object) -> Spec:
    return Spec(name, (sys.executable, "-c", program), ready=ready, **options)  # type: ignore[arg-type]  # see Spec


def there(path: Path) -> Callable[[], Awaitable[bool]]:
    """A check that is true when the file `path` exists."""

    async def look() -> bool:
        return path.exists()

    return look


class Stage:
    """A supervisor, and its output as `said`."""

    def __init__(self, *groups: list[Spec], pace: Pace = QUICK) -> None:
        self.out = io.StringIO()
        self.supervisor = Supervisor(groups, Voice(self.out, colour=False), pace)

    @property
    def said(self) -> str:
        return self.out.getvalue()

    def pid(self, name: str) -> int:
        child = self.supervisor.keeper(name).child
        assert child is not None
        return child.pid

    async def says(self, text: str, count: int = 1) -> None:
        await until(lambda: self.said.count(text) >= count, f"{text!r} in {self.said!r}")


@asynccontextmanager
async def stage(*groups: list[Spec], pace: Pace = QUICK) -> AsyncIterator[Stage]:
    one = Stage(*groups, pace=pace)
    try:
        yield one
    finally:
        one.supervisor.kill()
        await one.supervisor.stop()


async def test_all_run_until_stopped_and_none_after() -> None:
    """Each process has a session of its own, so that a terminal's Ctrl-C doesn't reach it."""
    async with stage([spec("a", WAITS)], [spec("b", WAITS), spec("c", WAITS)]) as one:
        await one.supervisor.start()
        pids = [one.pid(name) for name in "abc"]
        assert all(alive(pid) and os.getsid(pid) == pid for pid in pids)
        await one.supervisor.stop()
        assert not any(map(alive, pids))
        assert one.said == ""


async def test_a_group_waits_for_the_one_before(tmp_path: Path) -> None:
    """A process that needs the store starts only when the store is ready."""
    gate, second = tmp_path / "gate", tmp_path / "second"
    groups = [spec("a", WAITS, ready=there(gate))], [spec("b", f"open({str(second)!r}, 'w').close(); {WAITS}")]
    async with stage(*groups) as one:
        starting = asyncio.create_task(one.supervisor.start())
        await until(lambda: one.supervisor.keeper("a").child, "the first group")
        assert one.supervisor.keeper("b").child is None
        gate.touch()
        await starting
        await until(second.exists, "the second group")


async def test_a_start_that_fails_says_why_in_the_childs_own_words(tmp_path: Path) -> None:
    """A process that ends before it is ready ends the start. Its last lines are in the error, and are not printed."""
    ends = spec("b", "print('one'); raise SystemExit('no such table')", ready=there(tmp_path / "never"))
    async with stage([spec("a", WAITS), ends]) as one:
        with pytest.raises(StartFailed, match=r"b ended \(exit code 1\) before it was ready") as failed:
            await one.supervisor.start()
        assert sorted(failed.value.lines) == ["no such table", "one"]
        await one.supervisor.stop()
        assert not alive(one.pid("a"))
        assert one.said == ""


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("raise ValueError('no such table')", "ValueError: no such table"),
        (
            "raise ExceptionGroup('two', [ValueError('no such table'), KeyError('no such row')])",
            "KeyError: 'no such row'",
        ),
        ("raise SystemExit('framehold: no such table; nothing was started')", "no such table"),
        ("raise SystemExit(3)", ""),
    ],
)
async def test_a_start_that_fails_ends_with_the_cause(tmp_path: Path, program: str, says: str) -> None:
    """The message has the last line of a traceback. It has no cause if the process printed nothing."""
    async with stage([spec("a", program, ready=there(tmp_path / "never"))]) as one:
        with pytest.raises(StartFailed) as failed:
            await one.supervisor.start()
        code = 3 if program.endswith("(3)") else 1
        ended = f"a ended (exit code {code}) before it was ready"
        assert str(failed.value) == (f"{ended}: {says}" if says else ended)


async def test_a_slow_start_that_fails_ends_with_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a late start the lines of the process are shown as they come. The error still names the cause."""
    monkeypatch.setattr("framehold_cli.local.keeper._LATE_AFTER", 0.0)
    go = tmp_path / "go"
    program = (
        "import pathlib, time\nprint('still looking', flush=True)\n"
        f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)\nraise SystemExit('no such table')"
    )
    async with stage([spec("a", program, ready=there(tmp_path / "never"))]) as one:
        starting = asyncio.create_task(one.supervisor.start())
        await one.says("still looking")
        go.touch()
        with pytest.raises(StartFailed) as failed:
            await starting
        assert str(failed.value) == "a ended (exit code 1) before it was ready: no such table"
        assert failed.value.lines == [], "they were shown already"


async def test_a_start_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    """The error names the late process, and has its output."""
    late = spec("b", "print('still looking', flush=True); " + WAITS, ready=there(tmp_path / "never"))
    async with stage([spec("a", WAITS), late], pace=Pace(start=0.5)) as one:
        with pytest.raises(StartFailed, match=r"b was not ready within 0\.5 s") as failed:
            await one.supervisor.start()
        assert failed.value.lines == ["still looking"]


async def test_a_program_that_is_not_there() -> None:
    """A missing program is a failed start."""
    async with stage([Spec("a", ("/no/such/program",))]) as one:
        with pytest.raises(StartFailed, match="a can't be started"):
            await one.supervisor.start()


async def test_a_program_that_has_run_and_is_not_there_for_a_while(tmp_path: Path) -> None:
    """It is tried again, and the others live: a machine that is out of memory or of descriptors starts nothing, too."""
    program = tmp_path / "program"
    program.symlink_to(sys.executable)
    async with stage([Spec("a", (str(program), "-c", WAITS)), spec("b", WAITS)]) as one:
        await one.supervisor.start()
        other = one.pid("b")
        program.unlink()
        os.kill(one.pid("a"), signal.SIGKILL)
        await one.says("a can't be started ([Errno 2] No such file or directory", count=3)
        program.symlink_to(sys.executable)
        await one.says("a is back")
        assert alive(other) and alive(one.pid("a"))


async def test_a_dead_child_is_told_in_one_line_and_started_again() -> None:
    """The lines have the signal's name, what was lost, and the pid of the new process when it is ready."""
    async with stage([spec("node-1", WAITS, loss="calls parked on it are lost")]) as one:
        await one.supervisor.start()
        first = one.pid("node-1")
        os.kill(first, signal.SIGKILL)
        await one.says("is back")
        second = one.pid("node-1")
        assert second != first and alive(second)
        assert one.said.splitlines() == [
            "node-1 died (SIGKILL); calls parked on it are lost; starting it again in 0.01 s",
            f"node-1 is back (pid {second})",
        ]


async def test_a_child_that_somebody_told_to_end_lost_nothing() -> None:
    """A process that ended by SIGTERM had time to hand its calls off."""
    async with stage([spec("node-1", WAITS, loss="calls parked on it are lost")]) as one:
        await one.supervisor.start()
        os.kill(one.pid("node-1"), signal.SIGTERM)
        await one.says("node-1 was asked to end (SIGTERM); starting it again in 0.01 s")
        await one.says("node-1 is back")


async def test_a_child_that_cannot_come_up_again_does_not_flood(tmp_path: Path) -> None:
    """Its last lines are printed once. Each reported death is one line, and after some deaths not all are reported."""
    broken = tmp_path / "broken"
    program = f"import os, signal\nif os.path.exists({str(broken)!r}): raise SystemExit('the disk is full')\n{WAITS}"
    ready = tmp_path / "ready"
    ready.touch()
    async with stage([spec("a", program, ready=there(ready))], pace=Pace(first=0.001, max_pause=0.001)) as one:
        await one.supervisor.start()
        broken.touch()
        ready.unlink()
        os.kill(one.pid("a"), signal.SIGKILL)
        await one.says("died (exit code 1)", count=7)
        assert one.said.count("the disk is full") == 1
        assert one.said.count("a died") == 8
        ready.touch()
        broken.unlink()
        await one.says("is back")


def test_the_pause_doubles_while_lives_are_short() -> None:
    """The pause has a maximum. A long life resets it."""
    backoff = Backoff()
    assert [backoff.after(1) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert [backoff.after(31), backoff.after(29)] == [1, 2]
    assert {backoff.after(1) for _ in range(2000)} >= {60}, "a night of short lives"
    backoff.after(31), backoff.after(29)
    result = []
    for _ in range(24):
        backoff.after(0)
        result.append(backoff.worth_a_line)
    assert result == [True] * 4 + ([False] * 5 + [True]) * 3 + [False] * 2


async def test_lines_are_told_whole_behind_their_names() -> None:
    """Many lines at once, pieces of a line, a line without an end and bytes that are no text all become whole lines."""
    parts = (b"one\ntw", b"o\n", b"\xff\n")
    program = f"import os, signal\nfor part in (*{parts}, b'x' * 70_000 + b'\\n', b'end'): os.write(1, part)\n"
    async with stage([spec("a", program + WAITS), spec("longer", "print('hello', flush=True); " + WAITS)]) as one:
        await one.supervisor.start()
        await one.says("x\n")
        await one.says("longer | hello\n")
        os.kill(one.pid("a"), signal.SIGKILL)
        await one.says("a      | end\n")
        lines = one.said.splitlines()
        assert all(line.startswith(("a      | ", "longer | ", "a died")) for line in lines), lines
        assert {"a      | one", "a      | two", "a      | \ufffd"} <= set(lines)
        assert max(map(len, lines)) > 65_000


async def test_what_a_child_leaves_running_dies_with_it() -> None:
    """A grandchild that keeps the child's output open doesn't delay the report of the death."""
    program = (
        "import subprocess, sys, signal\n"
        f"one = subprocess.Popen([sys.executable, '-c', {WAITS!r}])\nprint('pid', one.pid, flush=True)\n{WAITS}"
    )
    async with stage([spec("a", program)]) as one:
        await one.supervisor.start()
        await one.says("pid ")
        grandchild = int(one.said.split("pid ")[1].split()[0])
        assert alive(grandchild)
        os.kill(one.pid("a"), signal.SIGKILL)
        await one.says("a died (SIGKILL)")
        await until(lambda: not alive(grandchild), "the end of the grandchild")


async def test_the_deaf_are_killed_when_their_time_is_over() -> None:
    """A process that ignores SIGTERM is killed after the timeout, or at once by `kill`."""
    for hurry, end, least, most in ((False, 0.5, 0.5, 30.0), (True, 60.0, 0.0, 55.0)):
        async with stage([spec("a", DEAF)], pace=Pace(end=end)) as one:
            await one.supervisor.start()
            await one.says("deaf")
            pid, start = one.pid("a"), time.monotonic()
            if hurry:
                one.supervisor.kill()
            await one.supervisor.stop()
            assert not alive(pid)
            assert least <= time.monotonic() - start < most


async def test_a_stop_during_a_start_leaves_nothing(tmp_path: Path) -> None:
    """This holds at each step of the start."""
    for turns in range(12):
        one = Stage([spec("a", WAITS)], [spec("b", WAITS, ready=there(tmp_path / "never"))])
        starting = asyncio.create_task(one.supervisor.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        await one.supervisor.stop()
        for keeper in (one.supervisor.keeper("a"), one.supervisor.keeper("b")):
            assert keeper.child is None or not alive(keeper.child.pid)


async def test_a_stop_while_a_dead_child_waits_for_its_next_life() -> None:
    """After `stop` no new process is started."""
    async with stage([spec("a", WAITS)], pace=Pace(first=60)) as one:
        await one.supervisor.start()
        os.kill(one.pid("a"), signal.SIGKILL)
        await one.says("starting it again in")
        start = time.monotonic()
        await one.supervisor.stop()
        assert time.monotonic() - start < 55
        assert not alive(one.pid("a"))


async def test_a_restart_on_purpose_is_no_death(tmp_path: Path) -> None:
    """The processes restart side by side: here none gets ready before all have begun."""
    begins = f"import os; open(f'{tmp_path}/{{os.getpid()}}', 'w').close(); {WAITS}"
    wanted = 2

    async def all_have_begun() -> bool:
        return len(list(tmp_path.iterdir())) >= wanted

    async with stage([spec(name, begins, ready=all_have_begun) for name in "ab"]) as one:
        await one.supervisor.start()
        before = {one.pid("a"), one.pid("b")}
        wanted = 4
        assert await one.supervisor.restart(["a", "b"])
        after = {one.pid("a"), one.pid("b")}
        assert not before & after and all(map(alive, after)) and not any(map(alive, before))
        assert "died" not in one.said


async def test_a_restart_that_does_not_come_up(tmp_path: Path) -> None:
    """It is told so, in time."""
    ready = tmp_path / "ready"
    ready.touch()
    names = ("a", "b")
    async with stage([spec(name, WAITS, ready=there(ready)) for name in names], pace=Pace(start=60)) as one:
        await one.supervisor.start()
        ready.unlink()
        one.supervisor.pace = Pace(start=0.3)
        assert not await one.supervisor.restart(names)


IN_TURN = """
import signal, socket, sys
if "--standby" in sys.argv:
    line = socket.socket(fileno=int(sys.argv[2])).makefile("rw")
    line.write("ready\\n"), line.flush(), line.readline()
    if open(sys.argv[-1]).read() == "broken":
        sys.exit("framehold: TARGET broken can't be imported: it is broken; nothing was started")
    line.write('["server.py", {"asking": 1, "reentrant": 1, "replayed": 0, "lease": 5.0}]\\n'), line.flush()
    if not line.readline():
        sys.exit(0)
signal.pause()
"""


def in_turn(name: str, target: Path) -> Spec:
    """A process that can stand by, as a node does. It refuses a TARGET in which `broken` stands."""
    return Spec(name, (sys.executable, "-c", IN_TURN, "--", str(target)))


async def test_the_process_that_stands_by_is_the_next_one(tmp_path: Path) -> None:
    """It has been started before, and serves when the process before it has ended."""
    target = tmp_path / "target"
    target.write_text("fine")
    others = descendants(os.getpid())
    async with stage([in_turn(name, target) for name in "ab"]) as one:
        await one.supervisor.start()
        before = {one.pid("a"), one.pid("b")}
        await one.supervisor.stand_by("ab")
        standing = descendants(os.getpid()) - before
        assert (await one.supervisor.check("ab")).file == Path("server.py")
        assert all(map(alive, before)), "nothing ends before the check is over"
        assert await one.supervisor.restart("ab")
        assert {one.pid("a"), one.pid("b")} <= standing and not any(map(alive, before))
        await one.supervisor.stand_by("ab")
        children = descendants(os.getpid()) - others
        await one.supervisor.stop()
        assert not any(map(alive, children)), "who stands by ends, too"


async def test_a_check_that_fails_restarts_nothing(tmp_path: Path) -> None:
    """The error is that of the process. The next check begins anew."""
    target = tmp_path / "target"
    target.write_text("broken")
    async with stage([in_turn(name, target) for name in "ab"]) as one:
        await one.supervisor.start()
        before = {one.pid("a"), one.pid("b")}
        with pytest.raises(ConfigError, match=r"^TARGET broken can't be imported: it is broken; nothing was started$"):
            await one.supervisor.check("ab")
        assert descendants(os.getpid()) >= before and all(map(alive, before))
        target.write_text("fine")
        await one.supervisor.check("ab")
        assert await one.supervisor.restart("ab") and not any(map(alive, before))


@pytest.mark.parametrize("heard", [True, False], ids=["heard-of", "not-heard-of"])
async def test_a_process_that_stood_by_and_was_killed(tmp_path: Path, heard: bool) -> None:
    """Another one is started in its place, whether or not the supervisor has heard of its end."""
    target = tmp_path / "target"
    target.write_text("fine")
    others = descendants(os.getpid())
    async with stage([in_turn("a", target)]) as one:
        await one.supervisor.start()
        before = one.pid("a")
        await one.supervisor.stand_by("a")
        [standing] = descendants(os.getpid()) - {before} - others
        os.kill(standing, signal.SIGKILL)
        while alive(standing):
            # The event loop stands meanwhile, and hears of nothing.
            time.sleep(0.001)
        if heard:
            await until(lambda: not Path(f"/proc/{standing}").exists(), "its end is heard of")
        await one.supervisor.check("a")
        assert await one.supervisor.restart("a") and one.pid("a") not in (before, standing)


async def test_a_dead_process_is_restarted_with_what_was_checked(tmp_path: Path) -> None:
    """A restart ends the pause after its death. It serves what was checked, and the next check has a fresh process."""
    target = tmp_path / "target"
    target.write_text("fine")
    others = descendants(os.getpid())
    async with stage([in_turn("a", target)], pace=Pace(start=30, first=600, max_pause=600)) as one:
        await one.supervisor.start()
        os.kill(one.pid("a"), signal.SIGKILL)
        await one.says("starting it again in")
        for _ in ("dead", "alive"):
            before = one.pid("a")
            assert (await one.supervisor.check("a")).file == Path("server.py")
            assert await one.supervisor.restart("a")
            after = one.pid("a")
            assert descendants(os.getpid()) - others == {after} and after != before
            assert b"--standby" in Path(f"/proc/{after}/cmdline").read_bytes()


SUPERVISOR = f"""
import asyncio, sys
from framehold_cli.local.children import Spec
from framehold_cli.local.supervisor import Supervisor
from framehold_cli.show.voice import Voice
async def main():
    one = Supervisor([[Spec(name, (sys.executable, "-c", {WAITS!r})) for name in "ab"]], Voice())
    await one.start()
    print(*(one.keeper(name).child.pid for name in "ab"), flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills the children of a dead parent")
async def test_not_even_a_killed_supervisor_leaves_a_process() -> None:
    """The kernel kills the children."""
    with subprocess.Popen([sys.executable, "-c", SUPERVISOR], stdout=subprocess.PIPE, env=environment()) as supervisor:
        assert supervisor.stdout is not None
        pids = [int(word) for word in (await asyncio.to_thread(supervisor.stdout.readline)).split()]
        assert len(pids) == 2 and all(map(alive, pids))
        supervisor.kill()
    await until(lambda: not any(map(alive, pids)), "the end of its children")


async def test_secrets_stay_off_the_command_line() -> None:
    """A secret is in the child's environment. It is not in the representation of the spec."""
    one = spec("a", "import os; print(os.environ['SECRET'], flush=True); " + WAITS, environment={"SECRET": "hunter2"})
    assert "hunter2" not in repr(one)
    reply: list[str] = []
    child = await Child.start(one, reply.append)
    child.release()
    await until(lambda: reply == ["hunter2"], "its line")
    assert b"hunter2" not in Path(f"/proc/{child.pid}/cmdline").read_bytes()
    child.send(signal.SIGKILL)
    assert await child.exit_code() == -signal.SIGKILL


def test_causes_by_name() -> None:
    assert [cause(0), cause(3), cause(-9), cause(-250)] == ["exit code 0", "exit code 3", "SIGKILL", "signal 250"]


def test_a_reader_that_has_gone_is_no_error() -> None:
    """`framehold up | head` causes no traceback when `head` has closed the pipe."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", buffering=1) as out:
        Voice(out, colour=False).say("nobody hears this")
        try:
            out.close()
        except BrokenPipeError:
            pass


def test_names_are_coloured_in_a_terminal_only() -> None:
    plain, coloured = io.StringIO(), io.StringIO()
    for out, colour in ((plain, False), (coloured, True)):
        voice = Voice(out, colour)
        voice.names(["a", "router"])
        voice.child("a", "[red]text[/red]")
    assert plain.getvalue() == "a      | [red]text[/red]\n"
    assert "\x1b[" in coloured.getvalue() and coloured.getvalue().endswith("[red]text[/red]\n")


def test_letters_that_the_terminal_does_not_have() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Voice(out, colour=False).say("für zwei")
    out.seek(0)
    assert out.read() == "f\\xfcr zwei\n"
