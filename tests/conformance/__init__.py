"""The official MCP conformance suite, run against a server that is written with plain awaits.

`python -m tests.conformance` exits 0 only if every check of both protocol revisions passes.
"""
