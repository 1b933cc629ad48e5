"""Functions that authors call inside of a handler: `ask`, `once`, recorded values, readers of responses, `ToolBuilder`,
eras.

The public names are exported by `framehold` itself; authors import them from there.

May import: `wires`, `sdk`, `telemetry`, `engine`, `frame`. It does not know `hosts`.
"""
