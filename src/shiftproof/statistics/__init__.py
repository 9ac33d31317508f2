"""Pure statistics: bounds, intervals and the bootstrap. Arrays in, arrays or `Estimate` out; no files, no models.

Which bound holds when::

    votes, n fixed in advance          lower_bound, upper_bound, randomized_lower_bound, randomized_upper_bound
    votes, stop whenever you like      sequence_lower, sequence_upper
    soft scores, n fixed in advance    hoeffding_*, bernstein_*, or bernoulli_round and a bound on votes
    soft scores, a few hundred         betting_lower, betting_upper (also when you stop whenever you like)
    quantiles of any distribution      quantile_lower_index, quantile_upper_index
    means of samples or groups         bootstrap_mean, bootstrap_difference
    the same of several trainings      over_seeds
    predicted and true numbers         correlation, correlation_gap
"""

from shiftproof.statistics.betting import betting_lower, betting_upper
from shiftproof.statistics.binomial import (
    interval,
    lower_bound,
    randomized_lower_bound,
    randomized_upper_bound,
    upper_bound,
)
from shiftproof.statistics.bootstrap import Sample, bootstrap_difference, bootstrap_mean, bootstrap_ratios
from shiftproof.statistics.bounded import (
    bernoulli_round,
    bernstein_lower,
    bernstein_upper,
    hoeffding_lower,
    hoeffding_upper,
)
from shiftproof.statistics.correlation import Pairs, correlation, correlation_gap, pearson, spearman
from shiftproof.statistics.order import quantile_lower_index, quantile_upper_index
from shiftproof.statistics.seeds import over_seeds
from shiftproof.statistics.sequence import sequence_lower, sequence_upper

__all__ = [
    "Pairs",
    "Sample",
    "bernoulli_round",
    "bernstein_lower",
    "bernstein_upper",
    "betting_lower",
    "betting_upper",
    "bootstrap_difference",
    "bootstrap_mean",
    "bootstrap_ratios",
    "correlation",
    "correlation_gap",
    "hoeffding_lower",
    "hoeffding_upper",
    "interval",
    "lower_bound",
    "over_seeds",
    "pearson",
    "quantile_lower_index",
    "quantile_upper_index",
    "randomized_lower_bound",
    "randomized_upper_bound",
    "sequence_lower",
    "sequence_upper",
    "spearman",
    "upper_bound",
]
