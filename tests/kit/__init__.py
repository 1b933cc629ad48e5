"""What the tests of all rooms share: processes, nodes, fleets, stores, clients and a browser."""
