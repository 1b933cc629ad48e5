"""The models of a fleet's routers. The JSON of the view is a contract."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from .fields import Count, Lenient, Seconds, Text


class RouterEntry(Lenient):
    """What a router says of itself in the store. `name` is the host and the port on which it listens, `boot` names its
    process, `at` is in seconds since 1970, and `left` says that this is its last entry. `descriptors`
    are open there of `descriptors_limit`, None where its system does not say. `seal` is over all of it."""

    name: Text
    boot: Text
    version: Text
    at: Seconds
    left: bool = False
    descriptors: Count | None = None
    descriptors_limit: Count | None = None
    seal: Text = ""


class RouterView(BaseModel):
    """A router of the fleet. `heard` is when it last wrote to the store, in seconds since 1970. It is `lost` if it
    wrote nothing since for some time, and did not say that it ends. `answers` marks the router that gave this view.
    `descriptors` are open there of `descriptors_limit`."""

    name: Text
    boot: Text
    version: Text
    state: Literal["live", "lost"]
    heard: Seconds
    answers: bool = False
    descriptors: Count | None = None
    descriptors_limit: Count | None = None
