"""Other wires: clients of 2025-era revisions, and sagas. Their requests are translated into those that the seam serves.

A wire knows nothing of frames. It rewrites a client's request into a request of revision 2026-07-28, and the response
back.

May import: `sdk` and what it may import.
"""
