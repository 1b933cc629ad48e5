"""The HTTP API of a node for operators: lists of calls, cancel, evict, drain, probes and the profile of its memory.

May import: `hosts`, `sdk`, `telemetry`, `engine` and what they may import.
"""
