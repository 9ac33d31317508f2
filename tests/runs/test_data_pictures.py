"""Pictures of samples: who is in them, what was done to them, and that pixels are those of the transforms."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from shiftproof.display.grid import Grid, Row, Tile, draw_grids, tile_size
from shiftproof.display.lettering import plain, width_of, wrap
from shiftproof.domains import load_domains
from shiftproof.errors import UsageError
from shiftproof.perturbations.corruptions import corrupt
from shiftproof.perturbations.noise import as_noise
from shiftproof.runs import find_study, open_run
from shiftproof.runs.gallery.changes import noises_of
from shiftproof.runs.gallery.data_grids import data_grids, data_picture

Run = Callable[..., tuple[int, str, str]]
ANGLES = load_domains("rotated-digits")


class TestGrids:
    def test_clean_samples_are_of_all_classes_in_turns(self) -> None:
        (grid,) = data_grids(ANGLES)
        assert [row.name for row in grid.rows] == list(ANGLES.names)
        for row, domain in zip(grid.rows, ANGLES, strict=True):
            assert sorted(tile.caption for tile in row.tiles) == sorted(domain.classes)
            every = domain.tensors()[0].numpy()
            for tile in row.tiles:
                place = np.flatnonzero((every == tile.image).all((1, 2, 3)))
                assert domain.classes[domain.labels[place[0]]] == tile.caption

    def test_a_family_of_noise_is_one_draw_scaled(self) -> None:
        (grid,) = data_grids(ANGLES["angle=0"], noises=["gaussian:0.1", "gaussian:0.2"], each=3)
        assert list(grid.columns) == ["as it is", "sigma 0.1", "sigma 0.2"]
        assert len(grid.rows) == 3
        for row in grid.rows:
            clean, small, large = (tile.image for tile in row.tiles)
            assert np.allclose(large - clean, 2 * (small - clean), atol=1e-6)
            assert 0.05 < np.std(small - clean) < 0.15

    def test_deformed_tiles_are_what_the_noise_makes_of_the_image(self) -> None:
        (grid,) = data_grids(ANGLES["angle=0"], noises=["rotation:0.2"])
        clean, turned = (tile.image for tile in grid.rows[0].tiles)
        noise = as_noise("rotation:0.2")
        angles = torch.linspace(-0.2 * np.pi, 0.2 * np.pi, 2_001)[:, None]
        every = noise.apply(torch.from_numpy(clean)[None], angles).numpy()
        # some angle within the noise's own range gives this picture
        assert np.abs(every - turned).max((1, 2, 3)).min() < 0.01

    def test_what_is_done_to_a_sample_depends_on_it_alone(self) -> None:
        both = data_grids(ANGLES, noises=["dct:0.1"], corruptions="fog", each=2)
        alone = data_grids(ANGLES["angle=30"], noises=["dct:0.1"], corruptions="fog", each=2)
        for grid, own in zip(both, alone, strict=True):
            rows = grid.rows[2 * ANGLES.names.index("angle=30") :][:2]
            for row, other in zip(rows, own.rows, strict=True):
                assert all(np.array_equal(a.image, b.image) for a, b in zip(row.tiles, other.tiles, strict=True))
        other = data_grids(ANGLES["angle=30"], noises=["dct:0.1"], each=2, seed=1)
        assert not np.array_equal(other[0].rows[0].tiles[1].image, alone[0].rows[0].tiles[1].image)

    def test_corruptions_stand_by_group_and_are_ours(self) -> None:
        (grid,) = data_grids(ANGLES["angle=0"], corruptions=["jpeg-compression", "fog", "shot-noise"], severity=4)
        assert list(grid.columns) == ["as it is", "shot-noise", "fog", "jpeg-compression"]
        assert list(grid.groups) == [("", 1), ("noise", 1), ("weather", 1), ("digital", 1)]
        clean, _, fog, _ = (tile.image for tile in grid.rows[0].tiles)
        domain = ANGLES["angle=0"]
        place = np.flatnonzero((domain.tensors()[0].numpy() == clean).all((1, 2, 3)))[0]
        expected = corrupt(torch.from_numpy(clean)[None], "fog", 4, ids=[str(domain.ids[place])])
        assert np.array_equal(fog, expected[0].numpy())

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"noises": ["word-deletion:0.5"]}, "changes texts"),
            ({"corruptions": "mist"}, "unknown corruption"),
            ({"severity": 6, "corruptions": "fog"}, "severities"),
            ({"each": 0}, "at least 1"),
            ({"noises": ["rotatoin:0.5"]}, "unknown noise"),
        ],
    )
    def test_what_can_not_be_drawn_is_a_sentence(self, options: dict[str, object], said: str) -> None:
        with pytest.raises(UsageError, match=said):
            data_picture(ANGLES, **options)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="holds texts"):
            data_picture(load_domains("signed-reviews"))


class TestDrawing:
    def test_small_images_are_magnified_by_whole_numbers(self) -> None:
        image = np.random.default_rng(0).random((3, 8, 8)).astype(np.float32)
        sheet = np.asarray(draw_grids([Grid([Row("a", [Tile(image)])])]))
        side = tile_size((3, 8, 8))[0]
        assert side == 128
        pixels = (image * 255).round().astype(np.uint8).transpose(1, 2, 0)
        found = [
            (y, x)
            for y in range(sheet.shape[0] - side + 1)
            for x in range(sheet.shape[1] - side + 1)
            if np.array_equal(sheet[y : y + side : 16, x : x + side : 16], pixels)
        ]
        assert found

    def test_text_stays_in_its_room(self) -> None:
        for text in ("jpeg-compression and more words", "one_long_word_without_any_space_in_it", "Größe"):
            assert all(width_of(line) <= 60 for line in wrap(text, 60))
            assert "".join(wrap(text, 60)).replace(" ", "") == plain(text).replace(" ", "")


class TestCommand:
    def test_show_writes_a_picture(self, run: Run, images: Callable[..., Path], tmp_path: Path) -> None:
        root = images()
        out = tmp_path / "p.png"
        code, told, error = run("data", "show", f"folder:{root}", "--out", out, "--json")
        assert code == 0, error
        told = json.loads(told)
        with Image.open(out) as picture:
            assert (picture.width, picture.height) == (told["width"], told["height"])
        assert told["domains"] == ["clinic-a", "clinic-b"]
        asked = ("--noise", "rotation", "--noise", "gaussian:0.2", "--sigma", ".1,.3", "--corruptions", "blur")
        code, _, error = run("data", "show", f"folder:{root}", *asked, "--domain", "clinic-b", "--out", out)
        assert code == 0, error
        with Image.open(out) as more:
            assert more.height > told["height"]

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("digits", "--out", "x.jpg"), "should end in .png"),
            (("digits", "--out", "."), "should end in .png"),
            (("digitz",), "Did you mean 'digits'"),
            (("digits", "--domain", "b", "--out", "x.png"), "unknown domain of 'digits': 'b'"),
            (("digits", "--noise", "rotation", "--sigma", ",", "--out", "x.png"), "names no size"),
            (("digits", "--noise", "rotation", "--sigma", "big", "--out", "x.png"), "sigma"),
            (("signed-reviews", "--out", "x.png"), "holds texts"),
            (("digits", "--set", "data.size=3", "--out", "x.png"), "size"),
        ],
    )
    def test_mistakes_are_a_sentence_and_leave_nothing(
        self, run: Run, arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        code, _, error = run("data", "show", *arguments)
        assert code == 1
        assert said in error
        assert not list(tmp_path.iterdir())


class TestReport:
    def test_a_run_shows_what_was_done_to_samples(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "s.yaml").write_text(
            "data: rotated-digits\ntarget: angle=75\nlimit: 10\nmodels: {a: {model: mlp, training: {steps: 2}}}\n"
            "probes: [clean, {name: noisy, noise: 'rotation:0.3'}, {name: corrupt, corruptions: [fog], severities: [2]}"
            ", {name: certify, certifier: {name: randomized-smoothing, noise: 'rotation:0.1', n: 20}}]\n"
        )
        noises = noises_of(find_study(str(tmp_path / "s.yaml")).all_probes)
        assert [(one.name, one.scale) for one in noises] == sorted((one.name, one.scale) for one in noises)
        assert len(noises) == 2
        out = tmp_path / "run"
        code, _, error = run("run", tmp_path / "s.yaml", "--out", out, "--workers", "1")
        assert code == 0, error
        picture = (out / "figures" / "changed-samples.png").read_bytes()
        assert Image.open(io.BytesIO(picture)).width > 200
        assert "What was done to samples" in (out / "report.html").read_text()
        code, told, error = run("verify", out, "--part", "2", "--seed", "1")
        assert code == 0, told + error
        assert open_run(out).content(images=False).changes is None
        code, _, error = run("report", out, "--no-images")
        assert code == 0, error
        assert "What was done to samples" not in (out / "report.html").read_text()

    def test_without_images_nothing_is_drawn(self, run: Run, tmp_path: Path) -> None:
        out = tmp_path / "run"
        asked = (
            "train",
            "--data",
            "rotated-digits",
            "--target",
            "angle=75",
            "--model",
            "mlp",
            "--objective",
            "gaussian",
        )
        code, _, error = run(*asked, "--set", "training.steps=2", "--no-images", "--out", out, "--workers", "1")
        assert code == 0, error
        assert not (out / "figures" / "changed-samples.png").exists()
