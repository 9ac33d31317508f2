"""Pure statistics: bounds, intervals and the bootstrap. Arrays in, arrays or `Estimate` out; no files, no models.

Which bound holds when::

    votes, n fixed in advance          lower_bound, upper_bound, randomized_lower_bound, randomized_upper_bound
    votes, stop whenever you like      sequence_lower, sequence_upper
    soft scores, n fixed in advance    hoeffding_*, bernstein_*, or bernoulli_round and a bound on votes
    soft scores, a few hundred         betting_lower, betting_upper (also when you stop whenever you like)
    quantiles of any distribution      quantile_lower_index, quantile_upper_index
    means of samples or groups         bootstrap_mean, bootstrap_difference
    the same of several trainings      over_seeds
    the mean over several targets      mean_of_independent
    what an interval decides           p_value, and holm where there are several
    predicted and true numbers         correlation, correlation_gap
    a few pairs of numbers             rank_correlation
    which alternative is best          win_shares, covering_range
"""

from shiftproof.statistics.best import covering_range, win_shares
from shiftproof.statistics.betting import betting_lower, betting_upper
from shiftproof.statistics.binomial import (
    interval,
    lower_bound,
    randomized_lower_bound,
    randomized_upper_bound,
    upper_bound,
)
from shiftproof.statistics.bootstrap import (
    Resampled,
    Sample,
    bootstrap_difference,
    bootstrap_mean,
    bootstrap_ratios,
    resample_difference,
    resample_mean,
    resample_weighted,
)
from shiftproof.statistics.bounded import (
    bernoulli_round,
    bernstein_lower,
    bernstein_upper,
    hoeffding_lower,
    hoeffding_upper,
)
from shiftproof.statistics.correlation import Pairs, correlation, correlation_gap, pearson, spearman
from shiftproof.statistics.independent import mean_of_independent
from shiftproof.statistics.order import quantile_lower_index, quantile_upper_index
from shiftproof.statistics.p_values import holm, p_value
from shiftproof.statistics.rank_correlation import RankCorrelation, rank_correlation
from shiftproof.statistics.seeds import over_seeds
from shiftproof.statistics.sequence import sequence_lower, sequence_upper

__all__ = [
    "Pairs",
    "RankCorrelation",
    "Resampled",
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
    "covering_range",
    "hoeffding_lower",
    "hoeffding_upper",
    "holm",
    "interval",
    "lower_bound",
    "mean_of_independent",
    "over_seeds",
    "p_value",
    "pearson",
    "quantile_lower_index",
    "quantile_upper_index",
    "randomized_lower_bound",
    "randomized_upper_bound",
    "rank_correlation",
    "resample_difference",
    "resample_mean",
    "resample_weighted",
    "sequence_lower",
    "sequence_upper",
    "spearman",
    "upper_bound",
    "win_shares",
]
