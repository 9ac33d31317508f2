"""Distances between domains of data sets and runs: from Python, from the command line, in the report."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import spearmanr
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.cli.main import main
from shiftproof.domains.inputs import ArrayInputs
from shiftproof.errors import ModelError, ShiftproofError, UsageError
from shiftproof.models.features import Extractor, extract_features, extractor_of
from shiftproof.report.how_far import value_words
from shiftproof.runs import Study, measure_distances, run_study
from shiftproof.runs.distances import keep_pairs, read_pairs
from shiftproof.runs.run import open_run

ANGLES = ("angle=0", "angle=15", "angle=30")
FEW = ["kernel", "sliced-wasserstein", "tv-bound", "same-law"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIFTPROOF_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def leave_one_out(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One run for each of five angles."""
    folder, names = tmp_path_factory.mktemp("runs"), sp.load_domains("rotated-digits").names[:5]
    found = []
    for target in names:
        study = {
            "name": "leave-one-out",
            "data": "rotated-digits",
            "source": [name for name in names if name != target],
            "target": target,
            "models": {"small": {"model": {"name": "mlp", "width": 16}, "training": {"steps": 20}}},
        }
        found.append(run_study(Study.model_validate(study), folder / target, progress="off").folder)
    return found


def test_all_pairs_halves_and_a_mixture() -> None:
    found = measure_distances(
        "rotated-digits",
        domain=ANGLES,
        source=["angle=0", "angle=15"],
        target="angle=30",
        weights=[1, 3],
        features="pixels",
        measures=FEW,
        limit=150,
        progress="off",
    )
    assert found.domains == ANGLES
    kinds = [one.kind for one in found.pairs if one.measure == "kernel"]
    assert kinds == ["pair"] * 3 + ["halves"] * 3 + ["mixture"]
    table = found.matrix("kernel")
    assert (table == table.T).all()
    assert (np.diag(table) < table[0, 1:].min()).all()
    assert table[0, 2] > table[0, 1]
    (mixed,) = [one for one in found.pairs if one.kind == "mixture" and one.measure == "kernel"]
    assert (mixed.reference, mixed.target, mixed.weights) == ("angle=0 + angle=15", "angle=30", (0.25, 0.75))
    assert all(one.standard_error for one in found.pairs if one.measure in ("kernel", "sliced-wasserstein"))
    json.dumps(found.to_dict())


def test_the_same_call_says_the_same_and_labels_do_not_count() -> None:
    domains = sp.load_domains("rotated-digits").select(ANGLES[:2])
    unlabelled = sp.Domains(
        "again",
        [sp.Domain(d.name, d.classes, d.inputs, np.zeros_like(d.labels), d.ids, d.groups, d.splits) for d in domains],
    )
    asked = {"features": "pixels", "measures": FEW, "limit": 100, "progress": "off"}
    first, again = measure_distances(domains, **asked), measure_distances(unlabelled, **asked)  # type: ignore[arg-type]
    assert first.pairs == again.pairs


def test_gaps_of_runs_stand_beside_distances(leave_one_out: list[Path]) -> None:
    asked = {"features": "pixels", "measures": ["kernel", "sliced-wasserstein"], "limit": 100, "progress": "off"}
    found = measure_distances(runs=leave_one_out, **asked)  # type: ignore[arg-type]
    assert len(found.gaps) == 5
    for run, gap in zip(map(open_run, leave_one_out), found.gaps, strict=True):
        clean = {one.domain: one["correct"].mean() for one in run.evidence.where(probe="clean")}
        sources = [clean[name] for name in gap.sources]
        assert gap.value == pytest.approx(np.mean(sources) - clean[gap.target])
    related = next(one for one in found.related if one.measure == "kernel")
    assert related.spearman.value == pytest.approx(spearmanr(related.distances, related.gaps).statistic)
    assert (related.spearman.n, related.spearman.exact, related.spearman.undecidable) == (5, True, False)
    four = measure_distances(runs=leave_one_out[:4], **asked)  # type: ignore[arg-type]
    assert all(one.spearman.undecidable for one in four.related)


def test_the_report_shows_them(leave_one_out: list[Path]) -> None:
    asked = ["--features", "pixels", "--limit", "60", "--measures", "kernel,tv-bound"]
    with pytest.raises(SystemExit, match="0"):
        main(["shift", "--distances", "--run", str(leave_one_out[0]), *asked, "--in-report"])
    run = open_run(leave_one_out[0])
    assert "how-far" in run.content().sections
    page = (run.folder / "report.html").read_text()
    assert "How far apart" in page
    assert "two halves of one domain" in page
    kept = [one for one in read_pairs(run.folder) if one.kind == "mixture" and one.measure == "kernel"]
    assert value_words(kept[0]).partition(" ±")[0] in page
    rows = (run.folder / "tables" / "how-far.csv").read_text().splitlines()
    assert len(rows) == 1 + len(read_pairs(run.folder))
    # other features are added, the same ones replaced
    before = read_pairs(run.folder)
    keep_pairs(run.folder, before)
    assert read_pairs(run.folder) == before


class Counting(nn.Module):
    """Means of quarters of an image, and how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, inputs: Tensor) -> Tensor:
        self.asked += len(inputs)
        return self.scale * nn.functional.adaptive_avg_pool2d(inputs, 2).flatten(1)


def test_features_are_computed_once_and_by_content(tmp_path: Path) -> None:
    images = torch.rand(20, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    network = Counting().eval()
    extractor = Extractor("counting", network)
    first = extract_features(extractor, ArrayInputs(images, "a"), "a")
    own = network.asked
    again = extract_features(extractor, ArrayInputs(images.clone(), "b"), "b")
    # what identifies the network asks it for two inputs
    assert network.asked == own + 2
    assert (first == again).all()
    assert first == pytest.approx(network(images).detach().numpy())
    changed = images.clone()
    changed[3] = 0.5
    assert not (extract_features(extractor, ArrayInputs(changed, "a"), "a")[3] == first[3]).any()
    with torch.no_grad():
        network.scale.mul_(2)
    assert extract_features(extractor, ArrayInputs(images, "a"), "a") == pytest.approx(2 * first)


def test_damaged_features_are_computed_again(tmp_path: Path) -> None:
    images = torch.rand(20, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    extractor = Extractor("counting", Counting().eval())
    first = extract_features(extractor, ArrayInputs(images, "a"), "a")
    (kept,) = (tmp_path / "cache" / "features").glob("*.safetensors")
    content = bytearray(kept.read_bytes())
    content[-1] ^= 1
    for damaged in (bytes(content), content[:40], b"", b"\x80\x04pickle"):
        kept.write_bytes(damaged)
        assert (extract_features(extractor, ArrayInputs(images, "a"), "a") == first).all()


def test_features_that_are_not_numbers_are_refused() -> None:
    class Bad(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return inputs.flatten(1) / 0.0

    with pytest.raises(ModelError, match="not numbers"):
        extract_features(Extractor("bad", Bad()), ArrayInputs(torch.rand(9, 1, 4, 4), "a"), "a")


def test_a_trained_model_gives_features_of_what_it_was_not_trained_on(leave_one_out: list[Path]) -> None:
    (model,) = (leave_one_out[0] / "models").glob("*.safetensors")
    asked = {"measures": ["kernel"], "domain": ["angle=0", "angle=15"], "progress": "off", "limit": None}
    found = measure_distances("rotated-digits", features=f"file:{model}", **asked)  # type: ignore[arg-type]
    whole = len(sp.load_domains("rotated-digits")["angle=15"])
    pair = next(one for one in found.pairs if one.kind == "pair")
    # angle=0 was the target, and angle=15 a source
    assert pair.n[0] == whole
    assert pair.n[1] < whole / 2


def test_a_folder_without_labels_is_a_target(tmp_path: Path) -> None:
    images, _ = sp.load_domains("rotated-digits")["angle=0"].take(np.arange(40))
    for number, image in enumerate(images):
        pixels = (255 * image[0].numpy()).astype(np.uint8)
        path = tmp_path / "new" / "deep" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    found = measure_distances(
        "rotated-digits",
        domain=["angle=0", "angle=75"],
        target=f"folder:{tmp_path / 'new'}",
        features="pixels",
        measures=["kernel"],
        limit=100,
        progress="off",
    )
    near, far = (
        next(one.value for one in found.pairs if (one.reference, one.target) == (name, "new"))
        for name in ("angle=0", "angle=75")
    )
    assert near < far / 5


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: measure_distances(), "give one of the two"),
        (lambda: measure_distances("digits", features="pixels"), "between two"),
        (lambda: measure_distances("rotated-digits", target="angle=99", features="pixels"), "angle=99"),
        (lambda: measure_distances("rotated-digits", source=["angle=0"], features="pixels"), "give --target"),
        (lambda: measure_distances("rotated-digits", measures=["fad"], features="pixels"), "fad"),
        (lambda: measure_distances("rotated-digits", measures=[], features="pixels"), "at least one distance"),
        (lambda: measure_distances("rotated-digits", features="mlp"), "no trained weights"),
        (lambda: measure_distances("rotated-digits", features="minilm"), "does not read images"),
        (lambda: measure_distances("rotated-digits", limit=1, features="pixels", progress="off"), "at least 8"),
        (
            lambda: measure_distances(
                "rotated-digits", source=["angle=0", "angle=15"], target="angle=30", weights=[1], features="pixels"
            ),
            "1 weights were given for 2 sources",
        ),
        (
            lambda: measure_distances("rotated-digits", source="angle=0", target="angle=30", weights=[-5]),
            "finite numbers above 0",
        ),
        (lambda: measure_distances("rotated-digits", source="angle=0,angle=0", target="angle=30"), "named once"),
        (lambda: measure_distances("rotated-digits", features="pixel"), "Did you mean 'pixels'"),
    ],
)
def test_bad_input_gets_a_sentence(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ShiftproofError, match=sentence):
        call()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--distances"], "give one of the two"),
        (["--distances", "--data", "rotated-digits", "--in-report"], "--in-report writes the report of a run"),
        (["--distances", "--data", "rotated-digits", "--profile", "x"], "--profile is about guarantees and alarms"),
        (["--distances", "--data", "rotated-digits", "--weights", "a,b"], "--weights is 'a,b'"),
        (["--distances", "--data", "rotated-digits", "--weights", "2,1"], "weights are those of sources"),
        (["--distances", "--data", "rotated-digits", "--level", "0.5"], "--level is about guarantees"),
        (["--distances", "--data", "rotated-digits", "--critic", "mlp-cayley"], "--critic is about guarantees"),
        (["--distances", "--run", "x", "--set", "data.size=9"], "--set changes options of --data"),
        (["--run", "x", "--set", "data.size=9"], "--set goes with --distances"),
        (["--data", "rotated-digits"], "--data goes with --distances"),
        (["--features", "pixels", "--run", "x"], "--features goes with --distances"),
        (["--run", "a", "--run", "b"], "several go with --distances"),
    ],
)
def test_options_that_do_not_go_together(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="1"):
        main(["shift", *arguments])
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_an_extractor_for_other_inputs_is_refused() -> None:
    with pytest.raises(UsageError, match="no pixels"):
        extractor_of("pixels", (128,), "text")


def called(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(arguments)


def test_verify_passes_after_distances_stand_in_the_report(
    leave_one_out: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []
    for run in leave_one_out[:3]:
        copy = tmp_path / run.name
        shutil.copytree(run, copy)
        runs.append(copy)
    asked = ["--features", "pixels", "--limit", "60", "--measures", "kernel,tv-bound", "--in-report"]
    called(["shift", "--distances", *(part for run in runs for part in ("--run", str(run))), *asked])
    for run in runs:
        called(["verify", str(run)])
    capsys.readouterr()
    page = (runs[0] / "report.html").read_text()
    report = json.loads((runs[0] / "report.json").read_text())["sections"]["how-far"]
    # every run's own gap, and those of the others
    assert {gap["target"] for gap in report["gaps"]} == {run.name for run in runs}
    assert {gap["run"] for gap in report["gaps"]} == {"", runs[1].name, runs[2].name}
    assert all(f"target of the run {run.name}" in page for run in runs[1:])
    assert [one["n"] for one in report["related"] if one["measure"] == "kernel"] == [3]
    assert "Does distance go with the gap?" in page
    # another measure of the same features does not take the first ones away
    called(
        [
            "shift",
            "--distances",
            "--run",
            str(runs[0]),
            "--features",
            "pixels",
            "--limit",
            "60",
            "--measures",
            "fid",
            "--in-report",
        ]
    )
    assert {one.measure for one in read_pairs(runs[0])} == {"kernel", "tv-bound", "frechet"}
    called(["verify", str(runs[0])])


def test_gaps_of_one_model_and_target_are_averaged_and_other_models_kept_apart(
    leave_one_out: list[Path], tmp_path: Path
) -> None:
    run = open_run(leave_one_out[0])
    again, wide = tmp_path / "again", tmp_path / "wide"
    for folder, width, seed in ((again, 16, 1), (wide, 24, 0)):
        study = {
            "name": "leave-one-out",
            "data": "rotated-digits",
            "source": list(run.record["sources"]),
            "target": run.study.targets[0],
            "seed": seed,
            "models": {"small": {"model": {"name": "mlp", "width": width}, "training": {"steps": 20}}},
        }
        run_study(Study.model_validate(study), folder, progress="off")
    asked = {"features": "pixels", "measures": "kernel", "limit": 60, "progress": "off"}
    orders = [[*leave_one_out[:2], again, wide], [again, *leave_one_out[:2], wide]]
    found = [measure_distances(runs=runs, **asked) for runs in orders]
    assert {gap.model for gap in found[0].gaps} == {"small", "small (wide)"}
    first, second = (next(one for one in some.related if one.model == "small") for some in found)
    lost = {gap.run: gap.value for gap in found[0].gaps if gap.model == "small" and gap.figure == first.figure}
    assert dict(zip(first.targets, first.gaps, strict=True)) == dict(zip(second.targets, second.gaps, strict=True))
    mean = (lost[leave_one_out[0].name] + lost["again"]) / 2
    assert first.gaps[first.targets.index(run.study.targets[0])] == pytest.approx(mean)


def test_sources_of_a_run_are_measured_against_a_new_folder(leave_one_out: list[Path], tmp_path: Path) -> None:
    for i in range(20):
        pixels = np.random.default_rng(i).integers(0, 256, (8, 8), np.uint8)
        (tmp_path / "new").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "new" / f"{i}.png")
    found = measure_distances(
        runs=leave_one_out[0], target=f"folder:{tmp_path / 'new'}", features="pixels", measures="kernel", limit=50
    )
    mixed = [one for one in found.pairs if one.kind == "mixture"]
    assert {one.target for one in mixed} == {open_run(leave_one_out[0]).study.targets[0], "new"}
    # as many samples as of one domain
    assert {one.n[0] for one in mixed} == {50}


def test_a_target_alone_is_measured_against_all_others() -> None:
    found = measure_distances(
        "rotated-digits", domain=ANGLES, target="angle=15", features="pixels", measures="kid", limit=40, progress="off"
    )
    (mixed,) = [one for one in found.pairs if one.kind == "mixture"]
    assert (mixed.reference, mixed.target) == ("angle=0 + angle=30", "angle=15")
    with pytest.raises(UsageError, match="was not measured"):
        found.matrix("frechet")


def test_few_groups_have_no_halves_and_few_samples_no_extrapolation() -> None:
    generator = np.random.default_rng(0)
    parts = [
        sp.Domain.from_arrays(
            name,
            generator.integers(0, 256, (60, 1, 4, 4), np.uint8),
            np.arange(60) % 2,
            ["a", "b"],
            groups=[f"{name} {i // 5}" for i in range(60)],
        )
        for name in ("h1", "h2")
    ]
    found = measure_distances(
        sp.Domains("clinics", parts), features="pixels", measures=["kernel", "frechet-extrapolated"], progress="off"
    )
    assert [one.kind for one in found.pairs if one.measure == "kernel"] == ["pair"]
    assert "16 samples" in (found.skipped or {})["halves"]
    few = measure_distances(
        "rotated-digits", domain=ANGLES[:2], features="pixels", measures=["frechet-extrapolated"], limit=50
    )
    assert few.pairs == ()
    assert "more samples than there are features (64)" in (few.skipped or {})["frechet-extrapolated"]


def test_features_of_a_model_for_other_images_are_refused(leave_one_out: list[Path], tmp_path: Path) -> None:
    model = next((leave_one_out[0] / "models").glob("*.safetensors"))
    for name in ("a", "b"):
        for kind in ("x", "y"):
            (tmp_path / "data" / name / kind).mkdir(parents=True)
            for i in range(10):
                pixels = np.random.default_rng([i, ord(name), ord(kind)]).integers(0, 256, (16, 16), np.uint8)
                Image.fromarray(pixels).save(tmp_path / "data" / name / kind / f"{i}.png")
    with pytest.raises(ModelError, match="takes images of 1x8x8, and these are 1x16x16"):
        measure_distances(f"folder:{tmp_path / 'data'}", features=f"file:{model}", measures="kernel", progress="off")
    smaller = {"name": f"folder:{tmp_path / 'data'}", "size": 8}
    found = measure_distances(smaller, features=f"file:{model}", measures="kernel", progress="off")
    assert len(found.pairs) > 0


def test_features_that_were_renamed_are_computed_again(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    inputs = [ArrayInputs(np.random.default_rng(i).random((9, 1, 2, 2), np.float32)) for i in (0, 1)]
    right = [extract_features(Extractor("n", network), one, "d") for one in inputs]
    files = list((tmp_path / "cache" / "features").iterdir())
    files[0].rename(tmp_path / "kept")
    files[1].rename(files[0])
    (tmp_path / "kept").rename(files[1])
    again = [extract_features(Extractor("n", network), one, "d") for one in inputs]
    assert all(np.array_equal(one, other) for one, other in zip(right, again, strict=True))
