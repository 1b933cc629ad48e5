"""Load scenarios: users call a fleet, faults break it, and checks judge what came of it. Start reading in `run`."""
