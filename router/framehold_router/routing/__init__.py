"""Routing of requests: their facts, the choice of a node with its reason, and the relay that never delivers one
twice."""
