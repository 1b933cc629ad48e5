"""The servers that load tests call."""
