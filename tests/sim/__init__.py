"""A seeded simulation of several nodes, a store, clients and a bad network around the real core.

Everything but the core is small and made up: `world` turns the clock and carries messages, `store` runs `record.apply`
and the lease functions, `node` and `driver` are a node's shell, `handlers` scripted tools, `clients` people who retry.
`plan` draws a schedule from a seed, `changes` edits a tool's code, `checks` states the invariants (`effect_checks`
those of `once`, `replay_checks` those of replay and divergence), `shrink` takes a failing schedule apart,
`mutations` breaks the core on purpose. Start with `python -m tests.sim --replay 1 --verbose`.
"""
