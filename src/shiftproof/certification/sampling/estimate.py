"""What certification will cost, from a trial on a few samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shiftproof.certification.certifier import Job, Memory
from shiftproof.certification.sampling.engine import Sampling, measure_rate, sample
from shiftproof.certification.sampling.setting import Setting
from shiftproof.certification.sampling.stopping import Full
from shiftproof.certification.sampling.tally import Tally
from shiftproof.rng import derive, numpy_generator
from shiftproof.types import Cost, FloatArray, IntArray

__all__ = ["estimate_sampling"]

TRIAL_IMAGES, TRIAL_SAMPLES, RATE_SECONDS = 32, 256, 1.0
FEWEST_IMAGES, TRIAL_SECONDS = 4, 4.0
"""A slow model is tried on fewer images."""


def estimate_sampling(job: Job, setting: Setting) -> Cost:
    """For all `n` samples a matter of speed; with a stopping rule, votes of a trial say how soon images stop."""
    rate = measure_rate(Sampling.of(job, [setting]), RATE_SECONDS)
    images = len(job.domain)
    most = images * (setting.n0 + setting.n)
    if not setting.stop.early and not setting.skip_wrong:
        return Cost(most, rate.seconds(most), most, rate.seconds(most))
    affordable = int(TRIAL_SECONDS * rate.passes / (setting.n0 + min(TRIAL_SAMPLES, setting.n)))
    passes = int(images * _mean_passes(job, setting, max(FEWEST_IMAGES, min(TRIAL_IMAGES, affordable))))
    return Cost(passes, rate.seconds(passes), most, rate.seconds(most))


def _mean_passes(job: Job, setting: Setting, tried: int) -> float:
    """Certify a few images with few samples, then let the rule run on votes drawn with the frequencies found."""
    few = np.unique(np.linspace(0, len(job.domain) - 1, tried, dtype=np.int64))
    # noise of its own: what is chosen after a look at an estimate must not have met the noise that certifies
    seed = derive(job.seed, "estimate")
    trial = replace(
        job, domain=job.domain.subset(few), seed=seed, record=Memory(), compute=job.compute.alone(), progress="off"
    )
    n = min(TRIAL_SAMPLES, setting.n)
    votes = sample(trial, [replace(setting, n=n, stop=Full(), skip_wrong=False)])[0]
    frequencies = np.stack([votes.count, votes.runner_up_count, n - votes.count - votes.runner_up_count], 1)
    # what was never seen may still happen: half a vote for each
    probabilities = (frequencies + 0.5) / (frequencies + 0.5).sum(1, keepdims=True)
    wrong = (votes.chosen != job.domain.labels[few]) & setting.skip_wrong
    drawn = _simulate_votes(setting, probabilities, Sampling.of(trial, [setting]), job.classes)
    return float(np.where(wrong, setting.n0, setting.n0 + drawn).mean())


def _simulate_votes(setting: Setting, probabilities: FloatArray, sampling: Sampling, classes: int) -> IntArray:
    """How many votes each image takes, by the rule itself on votes drawn with given probabilities."""
    generator = numpy_generator(0, "estimate")
    images = len(probabilities)
    tally = Tally(setting, np.zeros(images), max(classes, 3))
    tally.levels = setting.levels(classes)
    tally.chosen[:] = 0
    nobody_wrong = np.zeros(images, np.int64)
    for block in sampling.blocks(setting.n):
        open_ = np.flatnonzero(~tally.settled)
        if not len(open_):
            break
        count = min(block.stop, setting.n) - block.start
        tally.counts[open_, :3] += generator.multinomial(count, probabilities[open_])
        tally.drawn[open_] += count
        tally.settle(open_, nobody_wrong)
    return tally.drawn
