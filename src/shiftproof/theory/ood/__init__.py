"""Bounds on the mean loss under distribution shift that follow from input-robustness, with corrected constants."""
