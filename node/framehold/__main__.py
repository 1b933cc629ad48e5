"""`python -m framehold` is `framehold`."""

from framehold.cli import main

main()
