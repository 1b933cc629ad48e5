"""The official MCP conformance suite, run against a server that is written with plain awaits."""
