"""The commands of operators: `status`, `nodes`, `leases`, `ring`, `drain`, `cancel` and `evict`."""
