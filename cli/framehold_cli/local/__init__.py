"""The command `up`: a fleet of processes on this machine, with a store, reload and supervision."""
