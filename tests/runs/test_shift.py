"""A run and a target without labels: what is said, what is refused, and what is never said."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from shift_images import write_images

import shiftproof as sp
from shiftproof.domains.unlabelled import unlabelled_folder
from shiftproof.errors import DataError, DataNotFound, ShiftproofError, UsageError
from shiftproof.runs.run import Run
from shiftproof.runs.shift import profile_for
from shiftproof.runs.watch import open_alarm, watch_folder
from shiftproof.theory import Alarm, Profile, read_profile

Command = Callable[..., tuple[int, str, str]]
MOMENTS = {"steps": 60, "batch": 16}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on two clinics, with certificates in l2 and of rotations, and targets beside it."""
    root = tmp_path_factory.mktemp("shift")
    for name, level, seed in (("clinic-a", 20, 0), ("clinic-b", 24, 10)):
        for side in (0, 1):
            write_images(root / "data" / name / f"class-{side}", 90, level, seed + side, side=side)
    write_images(root / "far", 60, 140, 20)
    for side in (0, 1):
        write_images(root / "alike" / f"side-{side}", 40, 24, 30 + side, side=side)
    study = {
        "name": "clinics",
        "data": {"name": f"folder:{root / 'data'}"},
        "target": "clinic-b",
        "models": {
            "m": {
                "model": {"name": "mlp-cayley", "width": 16},
                "objective": "erm",
                "selection": "last",
                "training": MOMENTS,
            }
        },
        "probes": [
            {"name": "certify", "certifier": "lipschitz-margin"},
            {"name": "certify", "certifier": {"name": "randomized-smoothing", "noise": "rotation:0.1", "n": 200}},
        ],
    }
    (root / "study.yaml").write_text(yaml.safe_dump(study))
    sp.run_study(str(root / "study.yaml"), out=root / "run", workers=1, progress="off")
    return root


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return sp.open_run(folder / "run")


@pytest.fixture(scope="module")
def profile(run: Run, folder: Path) -> Profile:
    found = sp.shift(run, f"folder:{folder / 'far'}", domain="clinic-b", space="pixels")
    return profile_for(run, found.comparisons[0])


def test_without_a_target_there_are_the_certificates(run: Run) -> None:
    found = sp.shift(run)
    assert {(one.domain, one.norm) for one in found.certificates} == {
        (domain, norm) for domain in ("clinic-a", "clinic-b") for norm in ("l2", "angle")
    }
    assert not found.outside
    assert found.distance is None


def test_a_target_that_lies_outside_is_said_to(run: Run, folder: Path) -> None:
    found = sp.shift(run, f"folder:{folder / 'far'}", space="pixels")
    assert found.outside
    assert [one.domain for one in found.comparisons] == ["clinic-a", "clinic-b"]
    one = found.comparisons[1]
    # the true difference of the two backgrounds is 116 of 255 on each of 64 pixels, cut where bright ones end
    assert one.ends is not None
    assert one.ends < 1.5 < one.distance.lower < 8 * 116 / 255
    assert one.distance.norm == "l2"
    assert one.distance.n == (90, 30)
    assert one.sentence.startswith("far is provably farther than ")
    assert (
        f"from clinic-b (99 %). The W1 guarantee of this run ends at {one.ends:.3g}: it says nothing there"
        in one.sentence
    )
    assert found.distance is min(found.comparisons, key=lambda c: c.distance.lower).distance


def test_of_a_target_that_is_alike_nothing_is_proven(run: Run, folder: Path) -> None:
    found = sp.shift(run, f"folder:{folder / 'alike'}", domain="clinic-b")
    assert [one.distance.norm for one in found.comparisons] == ["l2", "angle"]
    assert not found.outside
    for one in found.comparisons:
        assert "no evidence that it lies outside" in one.sentence
        assert "That it lies inside can't be proven" in one.sentence
    assert "safe" not in found.sentence


def test_parameters_and_representations(run: Run, folder: Path) -> None:
    turned = sp.shift(run, f"folder:{folder / 'far'}", domain="clinic-b", space="parameters").comparisons[0]
    assert (turned.distance.norm, turned.distance.critic) == ("angle", "smoothed critic (rotation 0.1)")
    assert "inside one interpolation" in turned.detail
    latent = sp.shift(run, "clinic-b", space="representation").comparisons[0]
    pixels = sp.shift(run, "clinic-b", space="pixels").comparisons[0]
    assert latent.ends == pixels.ends
    assert latent.distance.lower <= np.sqrt(64) * 4 / 255 + 0.3
    with pytest.raises(UsageError, match="can't be of --space representation"):
        profile_for(run, latent)


def test_arrays_and_domains_are_targets_too(run: Run, folder: Path) -> None:
    far = unlabelled_folder(folder / "far", (1, 8, 8), resize=False)
    options = {"domain": "clinic-b", "space": "pixels"}
    by_path = sp.shift(run, folder / "far", **options).comparisons[0].distance.lower
    assert sp.shift(run, far, **options).comparisons[0].distance.lower == by_path
    assert sp.shift(run, far.arrays(), **options).comparisons[0].distance.lower == pytest.approx(by_path, rel=0.3)
    domain = sp.Domain.from_arrays("other", far.arrays(), np.zeros(60, np.int64), ["a", "b"])
    assert sp.shift(run, domain, **options).comparisons[0].target == "other"


def test_a_network_is_a_critic_too(run: Run, folder: Path) -> None:
    found = sp.shift(run, folder / "far", domain="clinic-b", space="pixels", critics=["mlp-cayley"], progress="off")
    assert found.comparisons[0].distance.critic == "mlp-cayley critic"
    assert found.outside


def test_mistakes_get_a_sentence(run: Run, folder: Path, tmp_path: Path) -> None:
    def refused(target: object, **options: object) -> str:
        with pytest.raises(ShiftproofError) as caught:
            sp.shift(run, target, **options)  # type: ignore[arg-type]
        return str(caught.value)

    single = write_images(tmp_path / "single", 1, 20, 0)
    assert "'single' holds 1 different sample; a distance needs at least 8" in refused(single)
    large = write_images(tmp_path / "large", 9, 20, 0, size=10)
    assert "images of 10x10 pixels, and the run's are 8x8" in refused(large)
    again = folder / "data" / "clinic-b"
    assert "every sample of 'the target clinic-b' is one of 'clinic-b'" in refused(again, domain="clinic-b")
    assert "named as the domain to compare it with" in refused("clinic-b", domain="clinic-b")
    spoilt = np.full((9, 1, 8, 8), 0.5, np.float32)
    spoilt[3, 0, 0, 0] = np.nan
    assert "not numbers" in refused(spoilt)
    assert "(3, 8, 8)" in refused(np.zeros((9, 3, 8, 8), np.float32)) or "3 x 8 x 8" in refused(
        np.random.default_rng(0).random((9, 3, 8, 8)).astype(np.float32)
    )
    assert "holds texts" in refused("table:reviews.csv")
    assert "did you mean 'folder:" in refused(str(folder / "far"))
    assert "does not exist" in refused("folder:nowhere")
    (tmp_path / "empty").mkdir()
    assert "holds no image" in refused(tmp_path / "empty")
    assert refused("clinic-c").startswith("unknown domain of the run's data: 'clinic-c'")
    assert "critic" in refused("clinic-b", critics=["cnn"])
    assert "space" in refused("clinic-b", space="latent")
    assert "the level is 0.2" in refused("clinic-b", level=0.2)
    assert "critics in parameters" in refused("clinic-b", space="parameters", critics=["mlp-cayley"])


def test_colour_and_size_follow_the_rule_of_the_runs_data(tmp_path: Path, images: Callable[..., Path]) -> None:
    root = images(mode="RGB")
    with pytest.raises(DataError, match="in colour, and the run's are gray"):
        unlabelled_folder(root, (1, 8, 8), resize=False)
    assert unlabelled_folder(root, (1, 4, 6), resize=True, to_gray=True).arrays().shape == (48, 1, 4, 6)
    with pytest.raises(DataNotFound, match="is not a folder"):
        unlabelled_folder(root / "clinic-a" / "cat" / "0.png", (3, 8, 8), resize=False)


def test_a_limit_takes_whole_groups_at_random(run: Run) -> None:
    found = sp.shift(run, "clinic-b", limit=20, space="pixels").comparisons[0]
    assert found.distance.n == (10, 10)


class TestWatching:
    def test_a_stream_alarms_is_kept_and_counts_a_file_once(
        self, profile: Profile, folder: Path, tmp_path: Path
    ) -> None:
        state = tmp_path / "state.json"
        look = next(watch_folder(open_alarm(profile, state, 0.99, seed=1), folder / "far", state=state))
        assert look.alarm.raised
        assert look.new == 60
        assert "some of what arrives comes from provably farther than" in look.alarm.sentence
        kept = open_alarm(profile, state, 0.99)
        assert kept.raised
        assert kept.evidence == look.alarm.evidence
        assert list(watch_folder(kept, folder / "far", state=state)) == []

    def test_looks_in_several_sittings_are_one_stream(self, profile: Profile, folder: Path, tmp_path: Path) -> None:
        incoming = tmp_path / "incoming"
        state = tmp_path / "state.json"
        for count in (5, 12):
            write_images(incoming, count, 24, 40)
            (look,) = watch_folder(open_alarm(profile, state, 0.99, seed=1), incoming, state=state)
        assert (look.new, look.alarm.evidence.count) == (7, 12)
        assert not look.alarm.raised
        (idle,) = watch_folder(open_alarm(profile, state, 0.99), incoming, state=state)
        assert (idle.new, idle.alarm.evidence) == (0, look.alarm.evidence)

    def test_a_folder_is_followed_until_the_alarm(self, profile: Profile, folder: Path, tmp_path: Path) -> None:
        incoming = write_images(tmp_path / "incoming", 10, 24, 41)
        (incoming / "half.png").write_bytes(b"\x89PNG that is being written")
        sittings = 0

        def sleep(seconds: float) -> None:
            nonlocal sittings
            sittings += 1
            if sittings == 3:
                write_images(incoming / "drift", 60, 140, 42)

        looks = list(watch_folder(Alarm(profile, seed=2), incoming, every=7.0, looks=None, sleep=sleep))
        assert looks[0].new == 0  # a file is read when it did not change between two looks
        assert looks[1].new == 10
        assert list(looks[1].skipped) == ["half.png"]
        assert not looks[2].skipped
        assert looks[-1].alarm.raised

    def test_what_does_not_belong_to_the_profile_is_refused(
        self, profile: Profile, folder: Path, tmp_path: Path
    ) -> None:
        alarm = Alarm(profile, seed=3)
        state = alarm.to_state()
        with pytest.raises(DataError, match="of another profile"):
            Alarm.from_state(profile, state | {"profile": "other"})
        with pytest.raises(DataError, match="damaged"):
            Alarm.from_state(profile, state | {"log_capital": [0.0]})
        with pytest.raises(DataError, match="damaged"):
            Alarm.from_state(profile, {key: value for key, value in state.items() if key != "count"})
        with pytest.raises(DataError, match="inputs are 1 x 9 x 9"):
            alarm.update(np.zeros((2, 1, 9, 9), np.float32))
        with pytest.raises(DataError, match="not numbers"):
            alarm.update(np.full((2, 1, 8, 8), np.nan, np.float32))
        with pytest.raises(UsageError, match="choose a lower one"):
            Alarm(profile, level=0.999)

    def test_a_stream_of_arrays(self, profile: Profile, folder: Path) -> None:
        far = unlabelled_folder(folder / "far", (1, 8, 8), resize=False).arrays()
        batches = (far[start : start + 5] for start in range(0, 60, 5))
        *_, last = Alarm(profile, seed=4).follow(batches)
        assert last.raised
        assert last.evidence.count < 60


class TestVerb:
    def test_a_target_outside_exits_with_2(self, run: Run, folder: Path, command: Command) -> None:
        asked = ["shift", "--run", run.folder, "--target", f"folder:{folder / 'far'}", "--space", "pixels"]
        code, out, _ = command(*asked, "--out", "pictures")
        assert code == 2
        drawn = sorted(path.name for path in Path("pictures").iterdir())
        assert drawn == ["shift-clinic-a-l2.svg", "shift-clinic-b-l2.svg"]
        assert "clinic-b" in Path("pictures", drawn[1]).read_text()
        assert "ends at" in out
        assert "it says nothing there" in out
        code, out, _ = command(
            "shift", "--run", run.folder, "--target", f"folder:{folder / 'alike'}", "--domain", "clinic-b", "--json"
        )
        assert code == 0
        said = json.loads(out)
        assert not said["outside"]
        assert {one["norm"] for one in said["comparisons"]} == {"l2", "angle"}

    def test_a_profile_is_saved_and_judges_a_folder(
        self, run: Run, folder: Path, tmp_path: Path, command: Command
    ) -> None:
        saved = tmp_path / "b.profile"
        common = ["shift", "--run", run.folder, "--target", f"folder:{folder / 'far'}", "--domain", "clinic-b"]
        code, _, error = command(*common, "--save-profile", saved)
        assert (code, saved.exists()) == (1, False)
        assert "clinic-b (l2), clinic-b (angle)" in error
        code, _, _ = command(*common, "--save-profile", saved, "--space", "pixels")
        assert code == 0
        assert read_profile(saved).domain == "clinic-b"
        look = ["shift", "--profile", saved, "--state", tmp_path / "s.json", "--target"]
        assert command(*look, f"folder:{folder / 'alike'}")[0] == 0
        code, out, _ = command(*look, f"folder:{folder / 'far'}", "--json")
        assert code == 2
        assert json.loads(out)["alarm"] is True
        assert json.loads(out)["samples"] == 140

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ([], "one of the two"),
            (["--run", "RUN", "--save-profile", "x"], "--save-profile needs --target"),
            (["--run", "RUN", "--watch", "1"], "--watch goes with --profile"),
            (["--profile", "none", "--target", "folder:x"], "there is no file none"),
            (["--profile", "none"], "give --target folder:PATH"),
            (["--profile", "none", "--domain", "a"], "--domain goes with --run"),
        ],
    )
    def test_mistakes(self, options: list[str], said: str, run: Run, command: Command) -> None:
        code, _, error = command("shift", *[str(run.folder) if one == "RUN" else one for one in options])
        assert code == 1
        assert said in error


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line in process; `run` is a run here."""
    from shiftproof.cli.main import main

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return call
