"""`python -m shiftproof`."""

from shiftproof.cli.main import main

main()
