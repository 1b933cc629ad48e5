"""The command `doctor`: finds what is wrong with a fleet or its settings, and says how to correct it."""
