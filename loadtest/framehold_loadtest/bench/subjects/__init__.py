"""What the benchmark measures, each a process of its own: servers of one tool, a relay, and stub nodes."""
