"""A fleet of real processes on this machine, each started and faulted by its name."""
