"""What outlives a process: leases, journals and the registry of nodes."""
