"""The sampling engine: many images, shared noise, votes that depend on nothing but image and noise index."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from torch import nn

from shiftproof.certification.certificates import Certificates, certified_rows
from shiftproof.certification.certifier import Job, Memory
from shiftproof.certification.checks import reference_inputs
from shiftproof.certification.facts import facts_of
from shiftproof.certification.guarantees import smoothing_guarantee
from shiftproof.certification.sampling.bank import CHOOSING, COUNTING, Block, blocks, draw_block, off_grid
from shiftproof.certification.sampling.devices import of_images, place_of, restart_elsewhere
from shiftproof.certification.sampling.embedded import EmbeddedVoter, off_grid_texts
from shiftproof.certification.sampling.plain import Compared, PlainVotes
from shiftproof.certification.sampling.setting import Setting
from shiftproof.certification.sampling.spot_check import spot_check
from shiftproof.certification.sampling.tally import Choice, Tally, choose_classes
from shiftproof.certification.sampling.voting import Voter
from shiftproof.errors import NotAFunction, UsageError
from shiftproof.execution import pickled, progress_bar, run_shards, single_threaded, slots
from shiftproof.models.placement import on_device
from shiftproof.models.prepared.prepare import Prepared, prepare
from shiftproof.models.reference import Reference
from shiftproof.models.text import noise_shape
from shiftproof.types import FloatArray, IntArray

__all__ = ["Rate", "Sampling", "Work", "measure_rate", "sample"]

SHARD_IMAGES, SHARD_BYTES = 256, 32 << 20
PIECES, NOISE_SHARE, FEWEST_IMAGES = 4, 0.02, 64
"""Shards of a process, so that none waits long for the others: as long as drawing noise anew for each takes no larger
part of its time; so many images in one at the least, where nobody knows what takes how long."""
PROBE_SECONDS = 0.3

Part = tuple[str, list[Any] | Compared | None, int]
"""Which setting and image, and of one tile its state so far and how many votes are new.

Without a state: the image is settled, and the number is of votes that it did not need. Instead of one: what the model
itself said of some votes of a shard.
"""


def sample(
    job: Job,
    settings: Sequence[Setting],
    models: Sequence[nn.Module] | None = None,
    choice: Choice | None = None,
) -> list[Certificates]:
    """Certificates of every setting, over the samples of the job's domain in their order.

    `models` are the classifiers of the settings where they differ. Each setting chooses its own class for an image,
    unless there is a `choice` that fixes one class for all settings from the votes of all.
    """
    shapes = {setting.noise: noise_shape(setting.noise, job.model, job.domain.shape) for setting in settings}
    if len({(noise.law, noise.size(shape)) for noise, shape in shapes.items()}) > 1:
        raise UsageError("settings of one job share their noise: give them the same kind of noise, with any sigma")
    began = time.perf_counter()
    sampling = Sampling.of(job, settings, models, choice)
    total = len(job.domain) * sum(setting.n0 + setting.n for setting in settings)
    tallies = [
        Tally(setting, sampling.distances(number, job.domain.blocks), job.classes)
        for number, setting in enumerate(settings)
    ]
    for key, state in of_images(job.record.done):
        number, image = place_of(key)
        tallies[number].restore(image, state)
    finished = sum(len(tally.settle(np.arange(len(job.domain)), job.domain.labels)) for tally in tallies)
    kinds = restart_elsewhere(job, tallies)
    # on a cluster all work goes there; here processes are started if there is enough for them
    local = job.compute.processes > 1 and job.compute.cluster is None
    rate = measure_rate(sampling) if local else None
    seconds = 0.0 if rate is None else rate.seconds(total)
    shards = sampling.shards(FEWEST_IMAGES if rate is None else rate.fewest_images)
    work = Work(sampling, shards, dict(of_images(job.record.done)))
    if local and pickled(work) is None:
        warnings.warn("the model can't be sent to worker processes; it runs in this one", stacklevel=2)
    compared = Compared()
    spent, samples = 0, f"{len(job.domain) * len(settings):,} samples"
    try:
        with progress_bar(job.label, total, job.progress, sum(tally.spent() for tally in tallies)) as bar:
            for _, (key, state, votes) in run_shards(work, range(len(shards)), job.compute, seconds=seconds):
                if isinstance(state, Compared):
                    compared.add(state)
                elif state is None:
                    finished += 1
                else:
                    job.record.append(key, state)
                    number, image = place_of(key)
                    tallies[number].restore(image, state)
                    spent += votes
                pace = spent / max(time.perf_counter() - began, 1e-9)
                bar.advance(votes, f"{finished:,}/{samples}, {pace:,.0f} passes/s")
        sampling.check_again()
        compared.check(job.compute.precision)
        seconds = time.perf_counter() - began
        certificates = [_certificates(sampling, number, tally, seconds, kinds) for number, tally in enumerate(tallies)]
        for number, setting in enumerate(settings):
            spot_check(job, sampling.model_of(number), setting.noise, certificates[number])
    except NotAFunction:
        # its votes are those of several functions, and must not be continued
        job.record.discard()
        raise
    return certificates


@dataclass(frozen=True, eq=False)
class Sampling:
    """What is sampled; every process prepares the model for itself, once."""

    job: Job
    settings: tuple[Setting, ...]
    models: tuple[nn.Module, ...]
    references: tuple[Reference, ...]
    choice: Choice | None = None

    @classmethod
    def of(
        cls,
        job: Job,
        settings: Sequence[Setting],
        models: Sequence[nn.Module] | None = None,
        choice: Choice | None = None,
    ) -> Sampling:
        """The job's model for all settings, or one model each; asked now what every process has to hear from it."""
        place = job.compute.place
        different = [on_device(one, place) for one in ([job.model] if models is None else models)]
        inputs = reference_inputs(job.domain, max(setting.noise.scale for setting in settings))
        with single_threaded():
            references = [Reference.of(one, inputs) for one in different]
        return cls(job, tuple(settings), tuple(different), tuple(references), choice)

    @cached_property
    def prepared(self) -> tuple[Prepared, ...]:
        """The model of each setting, frozen and made fast."""
        job = self.job
        ready = [
            prepare(model, job.domain.shape, compute=job.compute, reference=reference)
            for model, reference in zip(self.models, self.references, strict=True)
        ]
        return tuple(ready if len(ready) == len(self.settings) else ready * len(self.settings))

    def model_of(self, number: int) -> nn.Module:
        """The model of a setting."""
        return self.models[number % len(self.models)]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Of what noise is drawn for: inputs, or the embeddings of as many tokens as the model reads."""
        return noise_shape(self.settings[0].noise, self.models[0], self.job.domain.shape)

    def check_again(self) -> None:
        """Refuse votes of models that say other things now, here, than they did before the first vote."""
        with single_threaded():
            held = all(one.holds() for one in self.prepared)
            pairs = zip(self.models, self.references, strict=True)
            if not held or not all(reference.holds_for(model) for model, reference in pairs):
                raise NotAFunction(
                    "the model gave other outputs after sampling than before it for the same inputs: it is no fixed "
                    "function, and its votes are not kept"
                )

    @cached_property
    def voters(self) -> tuple[Voter, ...]:
        """One for each setting."""
        pairs = zip(self.prepared, self.settings, strict=True)
        return tuple(self._voter(number, *pair) for number, pair in enumerate(pairs))

    def _voter(self, number: int, prepared: Prepared, setting: Setting) -> Voter:
        if setting.noise.embedded:
            return EmbeddedVoter(prepared, setting.noise, self.shape, self.job.classes, self.model_of(number))
        return Voter(prepared, setting.noise, self.shape, self.job.classes)

    @cached_property
    def plain(self) -> tuple[PlainVotes, ...]:
        """For each setting, the model itself, with which a part of the votes is compared."""
        job, models = self.job, self.models if len(self.models) > 1 else self.models * len(self.settings)
        votes = len(job.domain) * sum(setting.n0 + setting.n for setting in self.settings)
        pairs = zip(models, self.settings, strict=True)
        return tuple(PlainVotes.of(model, setting.noise, votes) for model, setting in pairs)

    def draws(self, block: Block, purpose: str) -> Any:
        """The standard draws of a block, shared by all images and settings."""
        return draw_block(self.settings[0].noise, self.shape, block, self.job.seed, purpose)

    def blocks(self, n: int) -> Iterator[Block]:
        """The blocks of the first `n` noise indices."""
        return blocks(self.settings[0].noise.size(self.shape), n)

    def distances(self, number: int, parts: Sequence[IntArray]) -> FloatArray:
        """How far images, in parts of the domain, are from the grid of a setting's noise.

        A deformation does not add to them, and takes them as they are.
        """
        domain, noise, found = self.job.domain, self.settings[number].noise, []
        for part in parts:
            inputs = domain.take(part)[0]
            if noise.embedded:
                found.append(off_grid_texts(self.model_of(number), noise, inputs))
            else:
                found.append(off_grid(inputs.double().numpy(), noise.norm) if noise.additive else np.zeros(len(part)))
        return np.concatenate(found)

    def shards(self, fewest: int = FEWEST_IMAGES) -> list[IntArray]:
        """Images that share a process and its noise; how they are cut changes no vote.

        Where several processes work, more than one each, of `fewest` images or more.
        """
        images, size = len(self.job.domain), max(np.prod(self.shape), np.prod(self.job.domain.shape))
        most = max(1, min(SHARD_IMAGES, SHARD_BYTES // (4 * max(1, int(size)))))
        at_once = slots(self.job.compute)
        pieces = min(PIECES * at_once, images // fewest) if at_once > 1 else 1
        count = max(-(-images // most), min(at_once, images), pieces)
        return np.array_split(np.arange(images), count)

    def __getstate__(self) -> dict[str, Any]:
        # what is prepared stays here, and so does the open file of the record
        kept = {name: getattr(self, name) for name in ("settings", "models", "references", "choice")}
        return {"job": replace(self.job, record=Memory()), **kept}


@dataclass(frozen=True, eq=False)
class Work:
    """The loop over one shard, in a form that can be sent to another process."""

    sampling: Sampling
    shards: list[IntArray]
    before: dict[str, Any]

    def __call__(self, shard: int) -> Iterator[Part]:
        sampling, images = self.sampling, self.shards[shard]
        settings = sampling.settings
        inputs, labels = sampling.job.domain.take(images)[0], sampling.job.domain.labels[images]
        distances = [sampling.distances(number, [images]) for number in range(len(settings))]
        tallies = [Tally(s, far, sampling.job.classes) for s, far in zip(settings, distances, strict=True)]
        for number, tally in enumerate(tallies):
            for place, image in enumerate(images):
                if (state := self.before.get(f"{number}:{image}")) is not None:
                    tally.restore(place, state)
        for tally in tallies:
            tally.settle(np.arange(len(images)), labels)
        placed = [[voter.place_image(image[None]) for image in inputs] for voter in sampling.voters]
        compared = Compared()
        for purpose in (CHOOSING, COUNTING):
            asked = [
                [plain.places(purpose, image, tally.target(purpose)) for image in images.tolist()]
                for plain, tally in zip(sampling.plain, tallies, strict=True)
            ]
            for block in sampling.blocks(max(tally.target(purpose) for tally in tallies)):
                draws = None
                for number, (voter, tally) in enumerate(zip(sampling.voters, tallies, strict=True)):
                    waiting = tally.waiting(purpose, block)
                    if not len(waiting):
                        continue
                    draws = sampling.draws(block, purpose) if draws is None else draws
                    noise = voter.place_noise(draws)
                    plain, chosen = sampling.plain[number], []
                    for place in waiting:
                        count = min(block.stop, tally.target(purpose)) - block.start
                        winners = voter.winners(placed[number][place], noise, count)
                        chosen.append(plain.choose(winners, block.start, asked[number][place]))
                        tally.add(place, voter.count(winners), count)
                        yield f"{number}:{images[place]}", tally.state(place), count
                    compared.add(plain.compare([inputs[place] for place in waiting], draws, chosen))
                    for place in tally.settle(waiting, labels):
                        yield f"{number}:{images[place]}", None, tally.saved(place)
            if purpose == CHOOSING:
                for number, places in enumerate(choose_classes(tallies, sampling.choice)):
                    for place in places:
                        yield f"{number}:{images[place]}", tallies[number].state(place), 0
                    for place in tallies[number].settle(places, labels):
                        yield f"{number}:{images[place]}", None, tallies[number].saved(place)
        sampling.check_again()
        yield "", compared, 0


@dataclass(frozen=True)
class Rate:
    """Forward passes, and noise samples drawn, a second by one single-threaded process, measured just now."""

    passes: float
    noise: float
    workers: int

    @property
    def fewest_images(self) -> int:
        """How many images have to share their noise for drawing it to be a small part of the work."""
        return math.ceil(self.passes / self.noise / NOISE_SHARE)

    def seconds(self, passes: float) -> float:
        """How long so many passes take with all workers."""
        return passes / self.passes / self.workers


def measure_rate(sampling: Sampling, seconds: float = PROBE_SECONDS) -> Rate:
    """Vote on the first image for a moment."""
    voter, prepared = sampling.voters[0], sampling.prepared[0]
    block = next(iter(sampling.blocks(1)))
    noise = voter.place_noise(sampling.draws(block, "probe"))
    began = time.perf_counter()
    voter.place_noise(sampling.draws(block, "probe"))
    drawn = len(noise) / (time.perf_counter() - began)
    image = voter.place_image(sampling.job.domain.take([0])[0])
    count = min(prepared.slice_size, len(noise))
    with single_threaded():
        voter.votes(image, noise, count)
        began, passes = time.perf_counter(), 0
        while passes == 0 or time.perf_counter() - began < seconds:
            voter.votes(image, noise, count)
            passes += count
    return Rate(passes / (time.perf_counter() - began), drawn, slots(sampling.job.compute))


def _certificates(sampling: Sampling, number: int, tally: Tally, seconds: float, kinds: Sequence[str]) -> Certificates:
    job, setting = sampling.job, tally.setting
    noise, levels = setting.noise, setting.levels(job.classes)
    votes = tally.votes(job.domain.labels)
    prepared = sampling.prepared[number].description
    rows = certified_rows(noise, votes, setting.n, levels)
    return Certificates.blank(
        job.domain.ids,
        chosen=votes.chosen,
        skipped=votes.skipped,
        count=votes.count,
        label_count=tally.label_votes(job.domain.labels),
        runner_up=votes.runner_up,
        runner_up_count=votes.runner_up_count,
        n=votes.n,
        off_grid=votes.off_grid,
        **rows,
        norm=noise.norm,
        units=noise.units,
        alpha=setting.alpha,
        guarantee=smoothing_guarantee(noise, setting.alpha, prepared),
        levels=levels,
        noise=noise,
        samples=setting.n,
        **facts_of(
            job,
            setting,
            seconds,
            n0=setting.n0,
            stop=setting.stop.spec,
            prepared=prepared,
            backend=job.compute.backend,
            device=", ".join(kinds),
        ),
    )
