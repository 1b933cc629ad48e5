"""Load scenarios with faults, benchmarks and comparisons for Framehold, all on real processes."""
