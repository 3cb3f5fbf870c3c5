"""`python -m btbench`."""

from btbench.cli.app import main

main()
