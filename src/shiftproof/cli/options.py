"""Options of the verbs, each declared once: an option means the same wherever it stands."""

from __future__ import annotations

import json
import shlex
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftproof.cli.completion import complete

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "EXIT_FAILED",
    "absolute",
    "arguments",
    "names_of",
    "numbers_of",
    "options_of_set",
    "repeat_command",
    "typed_command",
    "with_architecture",
]

EXIT_FAILED = 2
arguments: ContextVar[list[str]] = ContextVar("arguments")
"""What was typed after the program's name."""


def limit_of(text: Any) -> Any:
    """What a study has for --limit: 200, or {balanced: 200} for balanced:200."""
    typed = str(text)
    count = typed.removeprefix("balanced:")
    if not (count.isascii() and count.isdecimal() and int(count) >= 1):
        why = "it should be a whole number of at least 1, or balanced:500, the same number from every class."
        raise typer.BadParameter(f"{typed!r}: {why}")
    return int(count) if count == typed else {"balanced": int(count)}


# data and models
Data = Annotated[
    str,
    typer.Option(
        "--data",
        help="A data set's name, folder:PATH, table:PATH or hf:NAME. See: shiftproof data ls",
        autocompletion=complete("domains"),
    ),
]
TrainedModel = Annotated[
    str, typer.Option("--model", help="file:PATH of a trained model, hf:PATH or python:PKG.MOD:FN.", show_default=False)
]
NewModel = Annotated[
    str,
    typer.Option(
        "--model",
        help="mlp, cnn, ..., file:PATH, hf:PATH, timm:NAME, python:PKG.MOD:FN.",
        autocompletion=complete("models"),
    ),
]
Architecture = Annotated[
    str | None,
    typer.Option(
        "--architecture",
        help="What the weights of file:PATH are for, if no JSON beside them says so: cnn, or python:PKG.MOD:CLASS.",
    ),
]
Source = Annotated[
    str | None,
    typer.Option("--source", help="Domains that the model is trained on: a,b.", show_default="all but the targets"),
]
Target = Annotated[
    str | None, typer.Option("--target", help="Domains that the model is shipped to: a,b; training leaves them out.")
]
MeasuredDomains = Annotated[
    str | None, typer.Option("--domain", help="Domains to measure on: a,b.", show_default="all")
]
Objective = Annotated[
    str, typer.Option("--objective", help="See: shiftproof ls objectives", autocompletion=complete("objectives"))
]

# which samples
Limit = Annotated[
    Any,
    typer.Option(
        "--limit",
        parser=limit_of,
        metavar="N | balanced:N",
        help="Samples of a domain, at most, at random; balanced:500: the same number from every class, 500 in all.",
    ),
]
SampleSeed = Annotated[
    int, typer.Option("--sample-seed", min=0, help="Seed by which --limit chooses samples, at random.")
]
Split = Annotated[
    str | None,
    typer.Option(
        "--split",
        help="Which part of each domain: all, train, validation, test, held-out.",
        show_default="all; held-out of domains that the model's record says it was trained on",
    ),
]

# what is asked
Threats = Annotated[
    str | None,
    typer.Option(
        "--threat",
        help="Attacks: l2:0.5, linf:8/255, rotation:0.2; of text edits:3; several with commas.",
        show_default="l2:0.5, of text edits:3,embedding-l2:1.0",
    ),
]
OneThreat = Annotated[
    str,
    typer.Option(
        "--threat",
        help="Norm and size of the change, linf:8/255, a deformation and its size, rotation:0.3, or edits of words, "
        "edits:3; or without a size, with --eps.",
    ),
]
Attack = Annotated[
    str | None,
    typer.Option(
        "--attack",
        help="See: shiftproof ls attacks",
        show_default="pgd; spatial for a deformation",
        autocompletion=complete("attacks"),
    ),
]
Steps = Annotated[int | None, typer.Option("--steps", min=1, help="Steps of the attack.", show_default="as the attack")]
Eps = Annotated[str | None, typer.Option("--eps", help="Further sizes: 0.01,8/255.", show_default="that of the threat")]
Smoothed = Annotated[
    str | None,
    typer.Option(
        "--smoothed",
        help="Attack the majority vote under a noise: gaussian:0.25, word-deletion:0.8, embedding-gaussian:0.1.",
    ),
]
Certifier = Annotated[
    str | None,
    typer.Option(
        "--certifier",
        help="See: shiftproof ls certifiers, shiftproof explain",
        show_default="randomized-smoothing",
        autocompletion=complete("certifiers"),
    ),
]
Noise = Annotated[
    str | None,
    typer.Option(
        "--noise",
        help="uniform, rotation, word-deletion:0.8 ... See: shiftproof ls noise",
        show_default="gaussian; of text word-deletion",
        autocompletion=complete("noise"),
    ),
]
Sigma = Annotated[
    str | None,
    typer.Option(
        "--sigma",
        help="Scale of the noise; for pixels, which are in [0, 1]; of word-deletion its q; of embedding-gaussian in "
        "units of the model's embedding. Several with commas.",
        show_default="as the certifier or the model's training, or 0.25",
    ),
]
N = Annotated[
    int | None, typer.Option("--n", help="Noise samples per certificate, at most.", show_default="as the certifier")
]
N0 = Annotated[
    int | None, typer.Option("--n0", help="Noise samples that choose the class.", show_default="as the certifier")
]
Alphas = Annotated[
    str | None,
    typer.Option(
        "--alpha",
        help="Probability that a certificate is wrong, at most; several for randomized-smoothing.",
        show_default="as the certifier",
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option("--alpha", help="Probability that a certificate is wrong, at most.", show_default="0.001"),
]
Radii = Annotated[str | None, typer.Option("--radii", help="Radii to show: 0,0.25,0.5.", show_default="round ones")]
Stop = Annotated[
    str | None,
    typer.Option("--stop", help="full; radii (as soon as --radii are decided); within:0.95.", show_default="full"),
]
SkipWrong = Annotated[bool | None, typer.Option("--skip-wrong", help="Do not certify predictions that are wrong.")]
RunnerUp = Annotated[
    bool | None,
    typer.Option("--runner-up/--no-runner-up", help="Bound the second class on its own.", show_default="yes"),
]
Calibration = Annotated[
    str | None,
    typer.Option(
        "--calibration",
        help="Domains whose training images adapt the model: a,b.",
        show_default="those it was trained on",
    ),
]
Corruptions = Annotated[
    str,
    typer.Option(
        "--corruptions",
        help="standard, all, none, noise, blur, weather, digital, text, or names.",
        autocompletion=complete("corruptions"),
    ),
]
Severities = Annotated[
    str | None, typer.Option("--severities", help="1 to 5, with commas.", show_default="all, or by budget")
]
FurtherProbes = Annotated[
    str | None,
    typer.Option(
        "--also",
        help="Further probes: search, input-robustness.",
        show_default="none",
        autocompletion=complete("probes"),
    ),
]

# how it runs
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of all randomness.")]
NoiseSeed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Seed of the noise that certifies and votes.", show_default="drawn, and kept"),
]
StudySeed = Annotated[int | None, typer.Option("--seed", min=0, help="Replace the study's seed.")]
Seeds = Annotated[
    str | None,
    typer.Option("--seeds", help="Train and measure with several seeds: 0,1,2.", show_default="one, that of --seed"),
]
Budget = Annotated[
    str | None, typer.Option("--budget", help="How much time there is: 90s, 20m, 1.5h.", show_default="none")
]
Scale = Annotated[
    str | None,
    typer.Option("--scale", help="One of the study's scales, such as cpu or paper.", show_default="the first"),
]
Estimate = Annotated[bool, typer.Option("--estimate", help="Say what it would cost, and stop.")]
Require = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        help="Exit 2 unless it holds on every target, or without one on every domain: clean>=0.8 (the model itself), "
        "clean-vote>=0.8 (the smoothed one), attacked@l2:0.5>=0.4, certified@0.5:photo>=0.6, shift@w1=0.1>=0.5 (on "
        "every distribution that near), claims (every claim of the study that can be tested is supported); "
        "'clean>=0.8 with 95%' asks it of the lower limit.",
    ),
]
Junit = Annotated[
    Path | None,
    typer.Option(
        "--junit", help="Write requirements, findings and required claims as JUnit XML, which CI shows as tests."
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop, with exit 2, if anything about the data is odd.")]
# --set: what each verb has that no option of its own changes
ATTACK_KINDS = ("attack", "data", "model")
CERTIFY_KINDS = ("certifier", "noise", "data", "model")
DATA_KINDS = ("data",)
SetOfAttack = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change an option: attack.restarts=5, data.size=64, model.architecture=cnn."),
]
SetOfCertify = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Change an option: certifier.rule=selection, noise.k=3 (of --noise dct), data.size=64, "
        "model.architecture=cnn.",
    ),
]
SetOfData = Annotated[list[str] | None, typer.Option("--set", help="Change an option of the data: data.size=64.")]
SetOfTrain = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Change an option: objective.sigma=0.5, training.steps=200, model.width=64, data.size=64, selection=last; "
        "pretrain.data=NAME trains on other data first.",
    ),
]
SetOfStudy = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Change a key of the study, limit=100 or data.size=64; of all models that it trains, model.width=64, "
        "objective.sigma=0.5, training.steps=200, selection=last or pretrain.data=NAME; of one, "
        "models.NAME.training.steps=200; of a list by place, probes.0.certifier.n=1000.",
    ),
]
Precision = Annotated[
    str, typer.Option("--precision", help="f32, or bf16 where the processor has it; tf32 on an accelerator.")
]
Backend = Annotated[str, typer.Option("--backend", help="torch, or openvino (extra 'fast').")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Worker processes for long work.", show_default="one per core")
]
Processes = Annotated[
    int,
    typer.Option(
        "--processes", min=1, help="Processes that share out every minibatch: one per accelerator, or on the CPU."
    ),
]
Device = Annotated[str, typer.Option("--device", help="auto (an accelerator if there is one), cpu, cuda, cuda:1 ...")]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster", help="ray: start or join a cluster here; ray://HOST[:PORT]: join one there (extra 'distributed')."
    ),
]
Out = Annotated[Path | None, typer.Option("--out", help="Folder to write to.", show_default="runs/<name>-<hash>")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print every table and finding, not only the summary.")]
NoImages = Annotated[
    bool,
    typer.Option("--no-images", help="Keep samples out of the report: no picture, no text, ids as keyed hashes."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout instead of tables.")]


def absolute(spec: str) -> str:
    """file:PATH, folder:PATH, table:PATH and hf:PATH as they are found from anywhere."""
    kind, colon, path = spec.partition(":")
    local = kind in ("file", "folder", "table") or (kind == "hf" and Path(path).is_dir())
    return f"{kind}:{Path(path).resolve()}" if colon and path and local else spec


def repeat_command(seed: int) -> str:
    """What to type to get the same random draws again."""
    return f"{typed_command()} --seed {seed}"


def typed_command() -> str:
    """What was typed."""
    return shlex.join(["shiftproof", *arguments.get([])])


def names_of(text: str | None) -> list[str] | None:
    """Names with commas between them."""
    return None if text is None else [name.strip() for name in text.split(",")]


def numbers_of(text: str) -> tuple[float, ...]:
    """Numbers with commas between them, each once."""
    from shiftproof.errors import UsageError

    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{text!r} should be a number, or several with commas, such as 0.25,0.5") from error
    if len(set(numbers)) != len(numbers):
        raise UsageError(f"{text!r} names the same number twice")
    return numbers


def options_of_set(changes: Iterable[str], kinds: Sequence[str]) -> dict[str, dict[str, Any]]:
    """--set data.size=64, --set model.architecture=cnn: options by kind, for the kinds that a verb has."""
    from shiftproof.errors import UnknownName, UsageError
    from shiftproof.runs.study_files import apply_override

    document: dict[str, Any] = {kind: {} for kind in kinds}
    for change in changes:
        apply_override(document, change)
    for key, value in document.items():
        if key not in kinds:
            raise UnknownName("key of --set", key, kinds)
        if not isinstance(value, dict):
            raise UsageError(f"--set {key}={value} should name an option of it, such as --set {key}.NAME={value}")
    return document


def with_architecture(changes: Sequence[str] | None, architecture: str | None) -> list[str]:
    """The changes of --set, with what --architecture says as one more."""
    return [*(changes or []), *([] if architecture is None else [f"model.architecture={json.dumps(architecture)}"])]
