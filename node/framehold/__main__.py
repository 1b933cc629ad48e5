"""Runs the command line: `python -m framehold` does what `framehold` does."""

from framehold_cli import main

main()
