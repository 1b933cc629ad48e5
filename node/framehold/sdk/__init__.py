"""The seam in the MCP SDK: a handler of the SDK becomes a call of the engine, and its result goes back to the SDK.

May import: `telemetry`, `engine`, `frame`, and the MCP SDK. It knows neither which server the author chose (`hosts`)
nor how a request came in (`http`).
"""
