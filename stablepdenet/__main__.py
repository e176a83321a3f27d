"""`python -m stablepdenet`."""

from stablepdenet.cli import main

main()
