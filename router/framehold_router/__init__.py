"""Which node serves a request: ring, placement, relay and the dashboard. Imports core and store, never the node."""
