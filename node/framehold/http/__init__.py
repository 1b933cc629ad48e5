"""The ASGI side of a node: ordinary rounds, the entry for other requests that may ask, relaying, session affinity and
refusals.

May import: every package of the node.
"""
