"""Example servers. `framehold up` serves the booking example if the user names no other server."""
