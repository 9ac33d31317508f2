"""`python -m shiftproof`."""

from shiftproof.cli.main import main

if __name__ == "__main__":
    main()
