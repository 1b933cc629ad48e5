"""The connections to nodes: pooled, each with the proof that the process at the address is the one that is meant."""
