"""What a node reports about its calls: metrics, traces, the event log, ended calls, and how its loop spends its time.

Telemetry observes the engine. No call depends on it: with every observer removed each call ends as before.

May import: `engine`, `frame` and what they may import.
"""
