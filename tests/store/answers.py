"""Errors with which a Redis answers, and a word of what mends each."""

from __future__ import annotations

from redis import RedisError
from redis.connection import DefaultParser

ANSWERS = {
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.": "redis-cli SCRIPT KILL",
    "LOADING Redis is loading the dataset in memory": "wait",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": "name the master",
    "NOREPLICAS Not enough good replicas to write.": "start the store's replicas",
    "READONLY You can't write against a read only replica.": "name the master",
    "OOM command not allowed when used memory > 'maxmemory'.": "give the store more memory",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.": "disk",
    "NOAUTH Authentication required.": "correct",
    "NOPERM this user has no permissions to run the 'evalsha' command": "rights",
    "CLUSTERDOWN The cluster is down": "start the cluster's missing servers",
    "WRONGTYPE Operation against a key holding the wrong kind of value": "look at the store's own log",
    "ERR unknown command 'EVALSHA', with args beginning with: 'swordfish'": "look at the store's own log",
}


def error_of(reply: str) -> RedisError:
    """What the client makes of the error reply."""
    found = DefaultParser.parse_error(reply)  # type: ignore[no-untyped-call]
    assert isinstance(found, RedisError)
    return found
