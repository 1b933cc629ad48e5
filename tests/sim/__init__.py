"""A seeded simulation of several nodes, a store, clients and a bad network around the real core.

Everything but the core is small and made up: `world` turns the clock and carries messages, `store` runs `record.apply`
and the lease functions, `node` and `driver` are a node's shell, `handlers` scripted tools, `clients` people who retry.
`plan` draws a schedule from a seed, `weather` the faults in it, `changes` edits a tool's code, `tokens` are what
clients hold and forge. `checks` states the invariants of docs/protocol.md (`effect_checks` those of `once`,
`replay_checks` those of replay and divergence, `bound_checks` I8 and I9), `runs` plays many and takes a failing one
apart, `mutations` names what is broken on purpose and `broken` does it. Start with
`python -m tests.sim --replay 1 --verbose`.
"""
