"""The gallery of a run: which samples, that pictures are what was measured, and that outcomes are those of evidence."""

from __future__ import annotations

import base64
import copy
import hashlib
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import shiftproof as sp
from shiftproof.domains import Domain
from shiftproof.evidence import Evidence, Measurement
from shiftproof.models import load_model
from shiftproof.probes.attack import Attack
from shiftproof.report.gallery.files import GallerySample, Version, VersionKind, gallery_path, read_gallery
from shiftproof.report.gallery.outcomes import outcomes_of
from shiftproof.runs import Run, open_run
from shiftproof.runs.engine import run_study
from shiftproof.runs.gallery import attacked, choose, write
from shiftproof.runs.gallery.attacked import TimeLeft, attack_again
from shiftproof.runs.gallery.noisy import move_to_edge
from shiftproof.runs.study_files import validated

STUDY: dict[str, Any] = {
    "name": "small",
    "data": "colored-digits",
    "target": "e=0.9",
    "limit": 40,
    "models": {
        "plain": {"model": "mlp", "training": {"steps": 60}},
        "gray": {"model": {"name": "mlp", "gray": True}, "training": {"steps": 60}},
    },
    "probes": [
        "clean",
        {"name": "attack", "attack": {"name": "pgd", "threat": "l2:0.5", "steps": 8}, "eps": [0.25]},
        {"name": "corrupt", "corruptions": ["fog", "gaussian-noise", "contrast", "pixelate"], "severities": [1, 5]},
        {"name": "certify", "certifier": {"name": "randomized-smoothing", "noise": "gaussian:0.25", "n": 200}},
    ],
}
DOMAINS = ("e=0.1", "e=0.2", "e=0.9")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of two models."""
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("gallery") / "run"
    run_study(validated(copy.deepcopy(STUDY), "the test"), path, progress="off").export()
    return path


@pytest.fixture
def run(folder: Path) -> Run:
    return open_run(folder)


def samples_of(run: Run) -> Iterator[tuple[str, GallerySample]]:
    for domain in DOMAINS:
        for sample in read_gallery(gallery_path(run.folder, domain)).samples:
            yield domain, sample


def pixels(version: Version) -> np.ndarray:
    """The picture as numbers in [0, 1], H x W x 3."""
    content = base64.b64decode(version.picture.partition("base64,")[2])
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"), np.float64) / 255


def rows_of(run: Run, **facts: Any) -> list[dict[str, Any]]:
    """Rows of evidence as Arrow has them, a dictionary each, of which some facts are true."""
    every: list[dict[str, Any]] = run.evidence.to_arrow().to_pylist()
    return [row for row in every if all(row[name] == value for name, value in facts.items())]


def original(run: Run, domain: str) -> dict[str, np.ndarray]:
    inputs, _ = (whole := sp.load_domains("colored-digits")[domain]).tensors()
    return dict(zip(whole.ids.tolist(), inputs.numpy(), strict=True))


def test_samples_are_the_first_of_a_random_order_by_their_ids_alone(run: Run) -> None:
    def key(sample: str) -> int:
        parts = [b"i1:0", b"s7:samples", f"s{len(sample)}:{sample}".encode()]
        digest = hashlib.blake2b(b"".join(parts), digest_size=16, person=b"shiftproof-rng").digest()
        return int.from_bytes(digest, "little")

    for domain in DOMAINS:
        measured = run.evidence.get(model="plain", domain=domain, probe="clean")["id"].tolist()
        shown = [sample.id for sample in read_gallery(gallery_path(run.folder, domain)).samples]
        assert shown == sorted(measured, key=key)[:12]


def test_outcomes_of_every_card_are_those_of_the_evidence(run: Run) -> None:
    rows = {(row["model"], row["domain"], row["id"], row["setting"]): row for row in rows_of(run)}
    shown = run.content().sections["gallery"].to_json()["samples"]
    for domain, samples in shown.items():
        for sample in samples:
            for model, told in sample["models"].items():
                mine = [row for key, row in rows.items() if key[:3] == (model, domain, sample["id"])]
                (clean,) = [row for row in mine if row["probe"] == "clean"]
                assert (told["label"], told["answer"]) == (clean["label"], clean["prediction"])
                (hit,) = [row for row in mine if row["probe"] == "attack" and row["eps"] == 0.5]
                (attack,) = told["attacked"]
                names = ("setting", "title", "classifier", "norm", "units", "eps", "distance")
                assert {name: attack[name] for name in names} == {name: hit[name] for name in names}
                assert (attack["answer"], attack["right"]) == (hit["prediction"], hit["correct"])
                corrupted = {row["setting"]: (row["prediction"], row["correct"]) for row in mine if row["corruption"]}
                assert {one["setting"]: (one["answer"], one["right"]) for one in told["corrupted"]} == corrupted
                (vote,), (held,) = [row for row in mine if row["probe"] == "certify"], told["certified"]
                names = ("radius", "chosen", "count", "label_count", "runner_up", "runner_up_count", "n", "prediction")
                assert {name: held[name] for name in names} == {name: vote[name] for name in names}
    assert sum(len(samples) for samples in shown.values()) == 36


def test_filters_count_what_evidence_says(run: Run) -> None:
    gallery = run.content().gallery_maker.gallery
    shown = {(domain, sample.id) for domain, sample in samples_of(run)}
    for place, model in enumerate(gallery.models):
        mine = [row for row in rows_of(run, model=model) if (row["domain"], row["id"]) in shown]
        clean, held = ([row for row in mine if row["probe"] == probe] for probe in ("clean", "certify"))
        right = {(row["domain"], row["id"]) for row in clean if row["prediction"] == row["label"]}
        sure = {(row["domain"], row["id"]) for row in held if row["prediction"] == row["label"] and row["radius"] > 0}
        wrong = [row for row in mine if row["prediction"] != row["label"] and (row["domain"], row["id"]) in right]
        broken = {(row["domain"], row["id"]) for row in wrong if row["probe"] == "attack" and row["eps"] == 0.5}
        lost = {key for key in right if key[0] == "e=0.9" and (key in broken or key not in sure)}
        beside = {key for key in sure if key[0] != "e=0.9"} if lost else set()
        expected = {
            "wrong": len(clean) - len(right),
            "certified": len(sure),
            "abstained": sum(row["prediction"] == -1 for row in held),
            "broken": len(broken),
            "corrupted": len({(row["domain"], row["id"]) for row in wrong if row["probe"] == "corrupt"}),
            "lost": len(lost | beside),
        }
        counts = {one.tag: gallery.count(one.tag, place) for one in gallery.filters}
        assert {tag: counts.get(tag, 0) for tag in expected} == expected
        assert sum(expected.values()) > 20


def test_attacked_pictures_are_what_the_attack_made(run: Run) -> None:
    """By `sp.attack` on the whole domain, and the model in double precision."""
    seen = 0
    for domain in DOMAINS:
        whole = sp.load_domains("colored-digits")[domain]
        measured = run.evidence.get(model="plain", domain=domain, probe="clean")["id"].tolist()
        places = [place for place, one in enumerate(whole.ids.tolist()) if one in set(measured)]
        for name in ("plain", "gray"):
            model = load_model(f"file:{run.folder / 'models' / f'{name}.safetensors'}")
            pgd = sp.attacks.PGD(sp.Threat("l2", 0.5), steps=8)
            found = sp.attack(model, whole.subset(places), pgd, eps=[0.25, 0.5], seed=0, progress="off")[-1]
            made = dict(zip(found.ids.tolist(), found.inputs.numpy(), strict=True))
            exact, before = copy.deepcopy(model).double(), original(run, domain)
            for sample in read_gallery(gallery_path(run.folder, domain)).samples:
                shown = [one for one in sample.versions if one.model == name and one.kind == "attacked" and one.picture]
                changes = [one for one in sample.versions if one.model == name and one.kind == "difference"]
                for version, change in zip(shown, changes, strict=True):
                    picture = pixels(version)[:, :, :2].transpose(2, 0, 1)
                    assert np.abs(picture - made[sample.id]).max() <= 0.51 / 255
                    delta = made[sample.id].astype(np.float64) - before[sample.id]
                    outcome = outcomes_of(run.evidence.where(model=name, domain=domain), [sample.id])[sample.id]
                    (attack,) = outcome.attacked
                    assert np.linalg.norm(delta) <= 0.5 * (1 + 1e-5)
                    assert np.linalg.norm(delta) == pytest.approx(attack.distance, rel=2e-3)
                    answer = exact(torch.from_numpy(made[sample.id][None]).double()).argmax(1).item()
                    assert answer == attack.answer
                    factor = float(change.note.removesuffix(" times"))
                    gray = pixels(change)[:, :, :2].transpose(2, 0, 1)
                    assert np.abs((gray - 0.5) / factor - delta).max() <= 1.01 / 255 / factor + 0.51 / 255
                    seen += 1
    assert seen > 20


def test_noisy_and_corrupted_pictures_are_those_that_were_measured(run: Run) -> None:
    model = load_model(f"file:{run.folder / 'models' / 'plain.safetensors'}")
    draws = sp.rng.numpy_generator(0, "certification", "normal", 128, 0).standard_normal((128, 128))
    for domain in DOMAINS:
        before = original(run, domain)
        for place, sample in enumerate(read_gallery(gallery_path(run.folder, domain)).samples):
            image = before[sample.id]
            (noisy,) = sample.of("noisy", "plain")
            copy_ = (np.rint(image * 65280) + np.rint(0.25 * draws[0] * 65280).reshape(image.shape)) / 65280
            assert noisy.answer == model(torch.from_numpy(copy_[None]).float()).argmax(1).item()
            assert np.abs(pixels(noisy)[:, :, :2].transpose(2, 0, 1) - copy_.clip(0, 1)).max() <= 0.51 / 255
            kinds = [one.note for one in sample.of("corrupted")]
            assert len(kinds) == 3
            for version in sample.of("corrupted"):
                name, severity = version.note.rsplit(" ", 1)
                ids = [sample.id]
                made = sp.corrupt(torch.from_numpy(image[None]), name, int(severity), seed=0, ids=ids)[0].numpy()
                assert np.abs(pixels(version)[:, :, :2].transpose(2, 0, 1) - made).max() <= 0.51 / 255
            # other samples show others: eight were measured
            every = [f"{name} {level}" for name in STUDY["probes"][2]["corruptions"] for level in (1, 5)]
            assert sorted(kinds) == sorted(every[(place + step) % 8] for step in (0, 2, 5))


def test_moved_samples_are_just_inside_their_certified_ball(run: Run) -> None:
    held = run.evidence.get(model="plain", domain="e=0.9", probe="certify")
    whole = sp.load_domains("colored-digits")["e=0.9"]
    few = whole.subset(np.arange(20))
    radii = dict(zip(held["id"].tolist(), held["radius"].tolist(), strict=True))
    before = original(run, "e=0.9")
    moved = list(move_to_edge(held, few, seed=0))
    for sample, image, words in moved:
        length = np.linalg.norm(image.double().numpy() - before[sample])
        assert length == pytest.approx(radii[sample], rel=1e-5)
        assert float(words.removeprefix("l2 ")) <= radii[sample]
    assert [one[0] for one in moved] == [one for one in few.ids.tolist() if radii.get(one, 0) > 0]
    steps = [(image.numpy() - before[sample]).ravel() / radii[sample] for sample, image, _ in moved]
    assert abs(float(steps[0] @ steps[1])) < 0.5


@pytest.mark.parametrize("column", ["distance", "prediction"])
def test_an_attack_that_comes_out_otherwise_is_not_shown(run: Run, column: str) -> None:
    probe = next(one for one in run.study.probes if isinstance(one, Attack))
    model = load_model(f"file:{run.folder / 'models' / 'plain.safetensors'}")
    here = run.evidence.where(model="plain", domain="e=0.9")
    samples = sp.load_domains("colored-digits")["e=0.9"].subset(np.arange(30))
    ids = set(here.where(probe="attack")[0]["id"].tolist())
    samples = samples.subset([place for place, one in enumerate(samples.ids.tolist()) if one in ids])
    good = list(attack_again(probe, model, samples, here, TimeLeft()))
    assert all(one.input is not None for one in good)
    changed = Evidence([_edited(one, column) if one.probe == "attack" else one for one in here])
    bad = list(attack_again(probe, model, samples, changed, TimeLeft()))
    assert len(bad) == len(good) > 0
    assert all(one.input is None and "otherwise than is recorded" in one.note for one in bad)


def _edited(one: Measurement, column: str) -> Measurement:
    values = one[column] * 1.1 if column == "distance" else 1 - one[column]
    place = one.table.column_names.index(column)
    return replace(one, rows=one.table.set_column(place, column, [values]))


def test_attacks_that_take_too_long_are_left_out_and_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attacked.TimeLeft, "seconds", 0.0)
    probe = next(one for one in run.study.probes if isinstance(one, Attack))
    here = run.evidence.where(model="plain", domain="e=0.9")
    held = here.where(probe="attack")[0]
    samples = sp.load_domains("colored-digits")["e=0.9"]
    few = samples.subset([place for place, one in enumerate(samples.ids.tolist()) if one in set(held["id"].tolist())])
    # a model that fails when it is asked
    notes = [one.note for one in attack_again(probe, nn.Identity(), few, here, TimeLeft(0.0))]
    assert notes
    assert all(note.startswith("not shown: attacking again would take") for note in notes)


def test_a_killed_run_makes_them_when_it_goes_on(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    copied = tmp_path / "run"
    shutil.copytree(folder, copied)
    for path in copied.glob("figures/gallery-*"):
        path.unlink()
    (copied / "report.html").unlink()
    study, real = validated(copy.deepcopy(STUDY), "the test"), write.versions_of_model
    left = iter(range(3))

    def dying(*arguments: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(write, "versions_of_model", dying)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, copied, progress="off")
    written = [path.name for path in copied.glob("figures/gallery-*")]
    assert 0 < len(written) < 3
    damaged = copied / "figures" / written[0]
    damaged.write_text(damaged.read_text()[:1000])
    monkeypatch.setattr(write, "versions_of_model", real)
    run_study(study, copied, progress="off").export()
    for path in folder.glob("figures/gallery-*"):
        assert (copied / "figures" / path.name).read_bytes() == path.read_bytes()
    assert (copied / "report.html").read_bytes() == (folder / "report.html").read_bytes()


def test_a_file_that_somebody_edited_is_refused_in_a_sentence(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "gallery.json"
    known = json.loads(gallery_path(folder, "e=0.9").read_text())
    known["samples"][0]["versions"][0]["picture"] = "https://example.org/track.png"
    path.write_text(json.dumps(known))
    with pytest.raises(sp.errors.DataError, match="does not hold the samples of a report; remove it"):
        read_gallery(path)


def smooth(count: int, size: int, generator: np.random.Generator) -> np.ndarray:
    """Images that vary as photographs do: a few waves, and a little noise."""
    grid = np.linspace(0, 3, size)
    waves = [np.sin(a * grid[:, None] + b * grid[None]) for a, b in generator.uniform(1, 4, (3 * count, 2))]
    images = 0.5 + 0.35 * np.stack(waves).reshape(count, 3, size, size)
    return (images + generator.normal(0, 0.02, images.shape)).clip(0, 1).astype(np.float32)


def measured(
    out: Path, size: int, names: tuple[str, ...], classes: tuple[str, str] = ("a", "b"), count: int = 14
) -> Run:
    """A run of a linear model as it is, on images of a size; the last of the domains is the target."""
    generator = np.random.default_rng(0)
    domains = [
        Domain.from_arrays(
            name,
            smooth(count, size, generator),
            [0, 1] * (count // 2),
            classes,
            ids=[f"{name}/{i}" for i in range(count)],
        )
        for name in names
    ]
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * size * size, 2)).eval()
    probes = [*STUDY["probes"][:1], {"name": "attack", "attack": {"name": "pgd", "threat": "l2:0.5", "steps": 2}}]
    probes += [{"name": "corrupt", "corruptions": ["fog", "contrast", "pixelate"], "severities": [3]}]
    probes += [{"name": "certify", "certifier": {"name": "randomized-smoothing", "noise": "gaussian:0.25", "n": 100}}]
    document = {"name": "small", "data": sp.Domains("given", domains), "target": names[-1], "probes": probes, "seed": 0}
    study = validated({**document, "models": {"m": {"model": model, "train": False}}}, "the test")
    run = run_study(study, out, progress="off")
    run.export()
    return run


def test_a_gallery_of_small_images_is_small(tmp_path: Path, brief_examination: None) -> None:
    run = measured(tmp_path / "run", 32, ("p", "q", "r", "s"))
    files = [gallery_path(run.folder, name) for name in ("p", "q", "r", "s")]
    assert sum(len(read_gallery(path).samples) for path in files) == 48
    assert sum(path.stat().st_size for path in files) < 1_500_000
    assert (run.folder / "report.html").stat().st_size < 3_000_000


def test_large_images_are_shrunk_and_a_note_says_so(tmp_path: Path, brief_examination: None) -> None:
    run = measured(tmp_path / "run", 128, ("p", "q"), count=4)
    files = [read_gallery(gallery_path(run.folder, name)) for name in ("p", "q")]
    pictures = [one for file in files for sample in file.samples for one in sample.versions if one.picture]
    assert {pixels(one).shape for one in pictures} == {(96, 96, 3)}
    assert all(one.picture.startswith("data:image/jpeg") for one in pictures)
    assert "the models saw 128 x 128 pixels" in (run.folder / "report.html").read_text()
    assert sum(gallery_path(run.folder, name).stat().st_size for name in ("p", "q")) < 2_000_000


def test_names_of_users_are_text(tmp_path: Path, brief_examination: None) -> None:
    bad = "<script>alert(1)</script>"
    run = measured(tmp_path / "run", 8, (f"{bad} one", f'"two" onclick={bad}'), (f"{bad} class", "b"))
    page = (run.folder / "report.html").read_text()
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert(1)") > 20
    assert re.search(r'data-domain="&#34;two&#34; onclick=', page)


@pytest.mark.parametrize(("kinds", "count"), [(8, 12), (1, 12)])
def test_how_many_samples_depends_on_no_outcome(kinds: int, count: int, run: Run) -> None:
    from shiftproof.runs.data import load_study_data

    data = load_study_data(run.study)
    assert choose.count_shown(data, run.study.all_probes, kinds) == count


def test_a_gallery_shows_all_corruptions_that_were_measured(run: Run) -> None:
    probe: Any = run.study.probes[2]
    shown = {one for place in range(12) for one in choose.corruptions_shown(probe, place)}
    assert shown == set(probe.settings)
    single = replace(probe, corruptions=("fog",), severities=(3,))
    assert choose.corruptions_shown(single, 5) == [("fog", 3)]


VERSIONS: tuple[VersionKind, ...] = ("original", "noisy", "corrupted")


def test_every_sample_has_its_versions(run: Run) -> None:
    for _, sample in samples_of(run):
        for kind in VERSIONS:
            assert sample.of(kind, "plain"), kind
