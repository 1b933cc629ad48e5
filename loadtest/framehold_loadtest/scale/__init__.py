"""How large a fleet must be, and what gives way first: sums from measured costs, and the real ring at 1,000 nodes.

`costs` has the figures and where each is from; `model` does the sums; `ring_sim` asks the ring and the placement that
routers use; `page` makes tables of it. `python -m framehold_loadtest.scale` prints them, `docs/scale.md` shows them.
"""
