"""The number of users at each moment of a run. Pure: one small class for each shape."""

from __future__ import annotations

from dataclasses import dataclass

Users = tuple[int, float]
"""How many, and how many of them are started or ended in a second."""


@dataclass(frozen=True, slots=True)
class Level:
    """So many users, who arrive within `ramp` seconds and stay until `seconds` are over."""

    users: int
    seconds: float
    ramp: float

    def at(self, t: float) -> Users | None:
        """The users at `t` seconds from the start; None at the end."""
        if t >= self.seconds:
            return None
        return self.users, self.users / max(self.ramp, 0.1)


@dataclass(frozen=True, slots=True)
class Breath:
    """Half of the users all the time, all of them in the middle third: the load that a fleet is scaled for."""

    users: int
    seconds: float
    ramp: float

    def at(self, t: float) -> Users | None:
        """As `Level`."""
        if t >= self.seconds:
            return None
        middle = self.seconds / 3 <= t < 2 * self.seconds / 3
        return (self.users if middle else max(1, self.users // 2)), self.users / max(self.ramp, 0.1)


Shape = Level | Breath
