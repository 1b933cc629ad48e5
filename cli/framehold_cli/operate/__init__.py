"""The commands of operators: `status`, `nodes`, `leases`, `ring`, `drain`, `cancel`, `evict`, `pause` and `resume`."""
