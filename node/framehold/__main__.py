"""Runs the command line: `python -m framehold` does what `framehold` does."""

from framehold.cli import main

main()
