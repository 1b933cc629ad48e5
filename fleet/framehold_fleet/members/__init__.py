"""The fleet as one process knows it: the nodes that have leases, the ring, and the figures of each node."""
