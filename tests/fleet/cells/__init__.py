"""A file for each fault of docs/guarantees.md, "By fault, strategy hold", a test for a marked and an unmarked handler,
on real processes.

Most share one fleet of three nodes and two routers, with leases of a second, which is mended before each test; a few
that need another store, or other limits, have a fleet of their own. What is asserted is what the ledger says, and how
the call ended. After each test the ledger of all calls so far is judged.
"""
