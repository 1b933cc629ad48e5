"""Load on real processes: the benchmark of `make bench`."""
