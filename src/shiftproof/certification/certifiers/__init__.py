"""One file a certifier, and beside it what serves that one alone."""
