"""Frozen copies of a classifier, rewritten for speed and compared with the model itself."""
