"""The load generators of the benchmark: each is a process that drives a subject and prints its figures as JSON."""
