"""Servers to try things with. `framehold up` serves the booking one when it is given no other."""
