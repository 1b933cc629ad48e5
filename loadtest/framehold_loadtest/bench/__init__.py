"""The benchmark: what a round, a parked frame, a store write, the router and a replay cost, measured side by side.

Run `python -m framehold_loadtest.bench [--quick] [--only SECTION] [--json PATH]`. Start reading in `__main__`.

Law: every printed figure is measured in this run, on this machine; what could not be measured
says so and why. Servers and the load that drives them are separate processes on separate cores,
and compared servers take turns, so that a slow minute of the machine hits all of them.
"""
