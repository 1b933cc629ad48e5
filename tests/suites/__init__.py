"""The test suites of mcp's Python SDK and of FastMCP, played with Framehold in between.

`python -m tests.suites` plays each suite without Framehold and with it. It exits 0 only if every difference between the
two runs is named in `accepted.toml`.
"""
