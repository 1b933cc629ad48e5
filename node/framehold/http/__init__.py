"""The ASGI side of a node: the fast entry for revision 2026-07-28, relaying, session affinity and refusals.

May import: every package of the node but `cli`.
"""
