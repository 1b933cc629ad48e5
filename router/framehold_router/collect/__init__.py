"""What a router collects of its fleet when somebody looks: requests to nodes, and the event log in the store."""
