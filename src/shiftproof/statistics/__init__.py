"""Pure statistics: intervals and the bootstrap. Arrays in, arrays or `Estimate` out; no files, no models."""

from shiftproof.statistics.binomial import interval, lower_bound, upper_bound
from shiftproof.statistics.bootstrap import Sample, bootstrap_difference, bootstrap_mean

__all__ = ["Sample", "bootstrap_difference", "bootstrap_mean", "interval", "lower_bound", "upper_bound"]
