"""The verdict on a fleet: what needs an operator, in one list for all who show it."""
