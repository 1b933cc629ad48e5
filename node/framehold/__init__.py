"""Framehold: `await ctx.elicit()` as a genuine suspension, on a fleet of MCP servers."""
