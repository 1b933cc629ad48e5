"""Real runtimes in a seeded world: what ships, on virtual time, stepped in an order that a seed decides."""
