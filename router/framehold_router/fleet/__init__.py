"""The fleet as one process knows it: members, ring, figures of the nodes, and the proof that a sender has the keys.

Nodes use this package too. May import: core, store, `models`.
"""
