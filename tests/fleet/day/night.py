"""The scenes that are days of their own, and with those of `scenes` the whole day, which `make day` plays."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from tests.fleet.day import faults, scenes
from tests.fleet.day.faults import FIRST, SECOND, STRAY, THIRD
from tests.fleet.day.scenes import Alert, Scene, fired, problem
from tests.fleet.day.voices import HARM, RISK

SUSPECT = frozenset({"node_unreachable", "node_lost", "node_lapsed", "heartbeat_late", "loop_stood"})
"""What is said of a node that is cut off, stands, or is gone."""
STARVED = frozenset({"no_live_node", "store_silent", "store_slow", "node_lapsed"})
"""What is said of a fleet without its store."""
LATE = frozenset({"StoreSlow", "LoopLagHigh", "CallsRefused", "RequestsFail", "StoreErrors", "NodeHeartbeatStale"})
"""Alerts of rates, which fire on a machine with other work too."""
_EMPTIED = Scene(
    "the store comes back empty",
    faults.come_back_empty,
    problem(RISK, "store_emptied"),
    passing=STARVED | {"loop_stood"},
    besides=frozenset({"StoreEmptied"}),
    logged="written again|lost the store",
)
_WRONG_CLOCK = Scene(
    "the clock of a node is 90 s ahead",
    faults.fast_clock,
    problem(RISK, "clock_wrong", SECOND),
    passing=SUSPECT,
    false="store clock +ok.{0,60}same",
    logged="(?i)clock",
    needs=("faketime",),
)
_OTHER_SERVER = Scene(
    "a server of another team has this fleet's settings",
    faults.another_server,
    problem(HARM, "servers_differ"),
    passing=frozenset({"tools_differ"}),
    because="its log is its own; FrameholdServersDiffer is not waited for",
)
_NIGHT = (
    Scene(
        "a node stands still for 20 s",
        faults.stand_still,
        problem(HARM, "node_unreachable", FIRST) | problem(HARM, "loop_stood", FIRST),
        passing=SUSPECT,
        alerts=fired(Alert("ProcessDown", instance=FIRST)),
        besides=frozenset({"FencedWrites"}),
        logged=FIRST,
    ),
    Scene(
        "the store is gone for 15 s",
        faults.come_back,
        problem(HARM, "store_silent"),
        # It answers LOADING while it reads its journal.
        passing=STARVED | {"loop_stood", "store_refuses"},
        alerts=scenes.UNSERVED,
        false="store_emptied|came back empty",
        logged="until the store is back|lost the store",
        prepare=faults.keep_on_disk,
    ),
    _EMPTIED,
    replace(_EMPTIED, name="the store comes back empty, twice", strike=faults.come_back_empty_twice),
    Scene(
        "the store fails over while two clocks are wrong",
        faults.fail_over,
        problem(RISK, "clock_wrong", FIRST) | problem(RISK, "clock_wrong", SECOND),
        passing=SUSPECT | STARVED,
        false="(?i)meadow[^.]{0,40}clock[^.]{0,40}(ahead|behind)",
        logged="(?i)clock",
        prepare=faults.two_servers,
        needs=("faketime",),
        because="no alert knows clocks",
    ),
    Scene(
        "the disk of the store's journal is full",
        faults.fill_disk,
        problem(HARM, "store_refuses") | problem(HARM, "store_unsaved"),
        passing=STARVED,
        alerts=scenes.UNSERVED,
        false="(?i)doesn't answer|does not answer|speaks TLS|start one",
        logged="MISCONF|No space left",
        prepare=faults.small_disk,
        needs=("root", "mount"),
    ),
    Scene(
        "a router is killed",
        faults.kill_router,
        problem(RISK, "router_lost"),
        alerts=fired(Alert("ProcessDown", instance="router-1")),
        because="a killed process logs nothing",
    ),
    Scene(
        "all routers are cut off from a node",
        faults.cut_all,
        problem(HARM, "node_unreachable", FIRST),
        passing=SUSPECT - {"node_lost"},
        false="(?i)harbour[^.]{0,60}(is dead|was lost)",
        logged=FIRST,
        needs=("root", "iptables", "setpriv"),
        because="Prometheus reaches the node",
    ),
    Scene(
        "one router is cut off from a node",
        faults.cut_one,
        problem(HARM, "node_unreachable", FIRST),
        passing=SUSPECT - {"node_lost"},
        false="(?i)harbour[^.]{0,60}(is dead|was lost)",
        logged=FIRST,
        needs=("root", "iptables", "setpriv"),
        because="Prometheus reaches the node",
    ),
    Scene(
        "a node dies again and again",
        faults.die_again,
        problem(HARM, "nodes_dying"),
        passing=SUSPECT,
        alerts=fired(Alert("NodesDying")),
        because="a killed process logs nothing",
    ),
    Scene(
        "a node has other keys",
        faults.wrong_keys,
        problem(RISK, "node_other_keys", STRAY),
        alerts=fired(Alert("KeysDiffer")),
        logged="(?i)keys",
    ),
    _WRONG_CLOCK,
    replace(
        _WRONG_CLOCK,
        name="the clock of a node jumps while it runs",
        strike=faults.jumping_clock,
        because="no alert knows clocks",
    ),
    Scene(
        "a node has 60 descriptors",
        faults.few_descriptors,
        problem(HARM, "descriptors", THIRD),
        passing=SUSPECT,
        logged="(?i)descriptors|too many open files",
        needs=("linux",),
    ),
    Scene(
        "a router has 60 descriptors",
        faults.few_router_descriptors,
        problem(HARM, "router_descriptors"),
        passing=frozenset({"router_lost"}),
        false="something else listens",
        logged="(?i)descriptors|too many open files",
        needs=("linux",),
    ),
    Scene(
        "a tool takes all memory of its node",
        faults.leak,
        problem(RISK, "memory_near_limit", THIRD) | problem(HARM, "node_full", THIRD),
        passing=SUSPECT,
        besides=frozenset({"FrameMemoryHigh"}),
        logged="(?i)memory",
        needs=("root", "cgroup"),
        because="it drops frames before the alert's 95 %",
    ),
    _OTHER_SERVER,
    replace(
        _OTHER_SERVER,
        name="servers of two other teams have this fleet's settings",
        strike=faults.other_servers,
        because="their logs are their own",
    ),
    Scene(
        "a drain of a node with 40 parked calls",
        faults.drain_parked,
        because="it was ordered; its calls go on elsewhere",
    ),
    Scene(
        "a flood of calls that nobody answers",
        faults.flood,
        because="there is room",
    ),
    Scene(
        "a server that is mounted in another app",
        faults.serve_mounted,
        prepare=faults.mount,
        because="nothing is wrong",
    ),
)
NIGHT = tuple(replace(scene, besides=scene.besides | LATE) for scene in _NIGHT)
DAY = (*scenes.SCENES, *NIGHT)


def lacks(scene: Scene) -> str:
    """What this machine lacks for a scene; empty if nothing."""
    there = {
        "root": os.geteuid() == 0,
        "linux": Path("/proc/self/fd").is_dir(),
        "cgroup": Path("/sys/fs/cgroup/memory").is_dir(),
        "faketime": any(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")),
    }
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    return ", ".join(one for one in scene.needs if not there.get(one, shutil.which(one, path=path)))
