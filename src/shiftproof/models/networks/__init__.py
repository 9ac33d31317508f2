"""Networks by name, one file an architecture, with the layers in front of them and the heads behind."""
