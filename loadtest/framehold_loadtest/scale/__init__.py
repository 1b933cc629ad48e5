"""How large a fleet must be, and which part is full first: sums from measured costs, and the real ring at 1,000 nodes.

`costs` has the figures and their sources, `model` does the sums, `ring_sim` asks the ring and the placement of the
routers, `storm` follows takeovers, and `tables` shows the results. `python -m framehold_loadtest.scale` prints them,
and puts them on pages.
"""
