"""Which node serves a request: placement, relay, API and dashboard. Imports core, store and fleet, never the node."""
