"""The sections of the benchmark: each starts its subjects and generators, and returns the figures as JSON values."""
