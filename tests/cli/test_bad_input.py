"""Input that makes no sense: one sentence on stderr, exit 1, nothing left on disk."""

import io
import itertools
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.cli.main import main
from shiftproof.cli.show import say, show_findings
from shiftproof.domains import load_domains
from shiftproof.errors import DataError, ModelError, UsageError
from shiftproof.execution import progress_bar
from shiftproof.models import build_model, load_model
from shiftproof.types import Finding

# TorchScript is deprecated, and still there
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")

Call = Callable[..., tuple[int, str, str]]
DIGITS = ["--data", "colored-digits"]
NESTED = "[" * 3000 + "]" * 3000
NETS = """
import threading, torch
from torch import nn

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(128, 2))
    def forward(self, inputs):
        return self.layers(inputs)

class Named(Own):
    def forward(self, inputs):
        return {"logits": self.layers(inputs), "features": inputs}

class Pair(Own):
    def forward(self, inputs):
        return self.layers(inputs), inputs

class Whole(Own):
    def forward(self, inputs):
        return (10 * self.layers(inputs)).long()

class Truth(Own):
    def forward(self, inputs):
        return self.layers(inputs) > 0

class Locked(Own):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

def own(): return Own().eval()
def named(): return Named().eval()
def pair(): return Pair().eval()
def whole(): return Whole().eval()
def truth(): return Truth().eval()
def locked(): return Locked().eval()
def scripted(): return torch.jit.script(own())
"""


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Models in a module of their own, and the folder from which nothing may be left."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "nets_of_bad_input.py").write_text(NETS)
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    return tmp_path / "empty"


def refused(run: Call, folder: Path, *arguments: object) -> str:
    """The sentence with which a command line is refused, and with nothing else."""
    code, out, err = run(*arguments)
    assert code == 1, (out, err)
    assert out == ""
    # a machine that is busy says that it reads
    (sentence,) = [line for line in err.strip().splitlines() if not re.fullmatch(r"reading: \d+/\d+, .*", line)]
    assert sentence.startswith("error: ")
    assert len(sentence) < 600
    assert list(folder.iterdir()) == []
    return err


def python(function: str) -> list[str]:
    return ["--model", f"python:nets_of_bad_input:{function}"]


OWN = python("own")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["certify", *DIGITS, *OWN, "--set", "model=cnn"], "--set model=cnn should name an option of it"),
        (["certify", *DIGITS, *OWN, "--set", "certifier=x"], "--set certifier=x should name an option of it"),
        (["certify", *DIGITS, *OWN, "--set", "noise=x"], "--set noise=x should name an option"),
        (["certify", *DIGITS, *OWN, "--set", "data=x"], "--set data=x should name an option"),
        (["certify", *DIGITS, *OWN, "--set", f"noise.sigma={NESTED}"], "more than 64 levels deep"),
        (["certify", *DIGITS, *OWN, "--set", ".".join("a" * 50) + "=1"], "names 50 keys inside each other"),
        (["certify", *DIGITS, *OWN, "--n", "9" * 20], "should be less than or equal to 1000000000"),
        (["certify", *DIGITS, *OWN, "--n0", "9" * 20], "should be less than or equal to 1000000000"),
        (["certify", *DIGITS, *OWN, "--sigma", "25", "--out", "s"], "too wide"),
        (["certify", *DIGITS, *OWN, "--noise", "dct", "--sigma", "0.1", "--set", "noise.k=1000000"], "no finer waves"),
        (["certify", *DIGITS, *OWN, "--sigma", ""], "the value of --sigma is empty"),
        (["certify", *DIGITS, *OWN, "--out="], "the value of --out is empty"),
        (["certify", *DIGITS, *OWN, "--out", " "], "the value of --out is empty"),
        (["certify", *DIGITS, *OWN, "--alpha", "0.001,0.0010"], "names the same number twice"),
        (["certify", *DIGITS, *OWN, "--radii", "0,0.5,0"], "names the same number twice"),
        (["certify", *DIGITS, *python("named"), "--n", "100"], "returns a dict ('logits', 'features'), not logits"),
        (["certify", *DIGITS, *python("pair"), "--n", "100"], "returns a tuple of 2, not logits"),
        (["certify", *DIGITS, *python("whole"), "--n", "100"], "returns int64 values"),
        (["certify", *DIGITS, *python("truth"), "--n", "100"], "returns bool values"),
        (["certify", *DIGITS, *python("locked"), "--n", "100"], "can't be copied (TypeError"),
        (["certify", *DIGITS, *python("scripted"), "--n", "100"], "the model is TorchScript"),
        (
            ["attack", *DIGITS, *OWN, "--threat", "l2:0.5,linf:8/255"],
            "attack takes one threat, not 'l2:0.5,linf:8/255'",
        ),
        (["attack", *DIGITS, *OWN, "--threat", "l2,linf", "--eps", "0.1"], "shiftproof audit --threat l2,linf"),
        (["attack", *DIGITS, *OWN, "--threat", "l2:1e300"], "eps is 1e+300"),
        (["attack", *DIGITS, *OWN, "--threat", "l2:1e9"], "any image is within l2 11.3 of any other"),
        (["attack", *DIGITS, *OWN, "--threat", "translation:1e300"], "eps is 1e+300"),
        (["attack", *DIGITS, *OWN, "--threat", "l2:0"], "eps is 0: within l2:0 nothing changes"),
        (["attack", *DIGITS, *OWN, "--threat", "translation:0"], "nothing changes"),
        (["attack", *DIGITS, *OWN, "--threat", "l2:0.1", "--set", "attack.threat=l2:0.2"], "--threat says what"),
        (["attack", *DIGITS, *OWN, "--threat", "l2:0.1", "--out", ""], "the value of --out is empty"),
        (["attack", *DIGITS, *python("named"), "--threat", "l2:0.1"], "returns a dict"),
        (["audit", *DIGITS, *OWN, "--target", "e=0.9", "--n", "9" * 20], "should be less than or equal to 1000000000"),
        (["audit", *DIGITS, *OWN, "--target", "e=0.9", "--threat", "l2:0"], "nothing changes"),
        (["audit", *DIGITS, *OWN, "--target", "e=0.9", "--sigma", ""], "the value of --sigma is empty"),
        (["audit", *DIGITS, *python("locked"), "--target", "e=0.9"], "can't be copied"),
        (["audit", *DIGITS, *python("scripted"), "--target", "e=0.9"], "the model is TorchScript"),
        (["explain", *OWN], "does not say what inputs it takes: give --data"),
        (["explain", *OWN, "--set", "model=cnn"], "should name an option of it"),
        (["explain", *OWN, "--certifier", "latent-margin", "--set", "certifier=x"], "should name an option of it"),
        (["train", *DIGITS, "--out", ""], "the value of --out is empty"),
        (["train", *DIGITS, "--set", "model=mlp"], "would replace the whole model: name it with --model"),
        (["train", *DIGITS, "--set", f"training.steps={NESTED}"], "more than 64 levels deep"),
        (["train", *DIGITS, "--model", "mlp", "--set", "model.width=1000000000"], "do not fit into memory"),
        (["train", *DIGITS, "--model", "cnn", "--set", "model.width=1000000000"], "do not fit into memory"),
        (["train", *DIGITS, "--model", "cnn-cayley", "--set", "model.width=1000000"], "do not fit into memory"),
        (["train", *DIGITS, "--model", "mlp", "--set", "model.depth=1000000000"], "less than or equal to 1000"),
        (["train", *DIGITS, "--model", "mlp", "--set", "training.lr=1e300"], "lr of training is '1e300'"),
        (["train", *DIGITS, "--model", "mlp", "--set", "training.batch=900000000"], "less than or equal to 1000000"),
        (["train", *DIGITS, *python("whole"), "--set", "training.steps=1"], "returns int64 values"),
        (["validate", "folder:x", "--set", "size=100000"], "less than or equal to 8192"),
        (["validate", "digits", "--set", f"{NESTED}"], "should read key.key=value"),
        (["validate", ""], "an argument is empty"),
    ],
)
def test_one_sentence_and_nothing_on_disk(run: Call, nets: Path, arguments: list[str], sentence: str) -> None:
    assert sentence in refused(run, nets, *arguments)


def test_images_that_can_not_be_corrupted_leave_no_folder(run: Call, nets: Path, images: Callable[..., Path]) -> None:
    data = f"folder:{images(size=1)}"
    assert "at least 8 x 8 pixels" in refused(run, nets, "corrupt", "--data", data, "--out", "c")


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--set", "training.steps=1"],
        ["certify", *OWN, "--n", "100"],
        ["attack", *OWN, "--threat", "l2:0.1"],
        ["audit", *OWN],
    ],
)
def test_data_of_one_class(run: Call, nets: Path, images: Callable[..., Path], arguments: list[str]) -> None:
    data = f"folder:{images(classes=('cat',))}"
    assert "has a single class ('cat')" in refused(run, nets, *arguments, "--data", data)


def test_validate_fails_on_one_class(run: Call, images: Callable[..., Path]) -> None:
    code, out, _ = run("validate", f"folder:{images(classes=('cat',))}")
    assert code == 2
    assert "there is a single class (cat)" in out


def test_training_on_one_class_in_python(images: Callable[..., Path]) -> None:
    domains = load_domains(f"folder:{images(classes=('cat',))}")
    with pytest.raises(DataError, match="a single class"):
        sp.train(nn.Sequential(nn.Flatten(), nn.Linear(192, 2)), domains, recipe={"steps": 1})
    # a pair of tensors names no classes: all labels may be 0
    pair = torch.rand(8, 3, 8, 8), torch.zeros(8, dtype=torch.long)
    sp.train(nn.Sequential(nn.Flatten(), nn.Linear(192, 2)), pair, recipe={"steps": 1})


class Locked(nn.Module):
    """A classifier that holds what can't be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.lock = nn.Linear(4, 2), threading.Lock()

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.layer(inputs.flatten(1))
        return logits


def test_models_that_can_not_be_copied_in_python() -> None:
    pair = torch.rand(4, 1, 2, 2), torch.tensor([0, 1, 0, 1])
    scripted = torch.jit.script(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).eval())
    smoothing = sp.certifiers.RandomizedSmoothing(sp.noise.Gaussian(0.25), n=100)
    with pytest.raises(ModelError, match="TorchScript"):
        sp.certify(scripted, pair, smoothing)
    with pytest.raises(ModelError, match="can't be copied .TypeError: cannot pickle '_thread.lock' object"):
        sp.certify(Locked().eval(), pair, smoothing)
    domains = load_domains("colored-digits")
    for model, sentence in ((scripted, "TorchScript"), (Locked(), "can't be copied")):
        with pytest.raises(ModelError, match=sentence):
            sp.audit(model, *domains.leave_out("e=0.9"))
        # an attack asks the model itself, and needs no copy
        sp.attack(model, pair, sp.attacks.PGD(sp.Threat("linf", 0.1), steps=2))
    with pytest.raises(UsageError, match="eps is 1e"):
        sp.attack(Locked(), pair, sp.attacks.PGD(sp.Threat("l2", 1e300)))


def test_building_a_network_counts_its_weights_without_changing_them() -> None:
    domains = load_domains("digits")
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    first, again = (build_model(name, domains, seed=1) for name in ("cnn", "cnn"))
    assert torch.equal(before, torch.random.get_rng_state())
    for one, other in zip(first.parameters(), again.parameters(), strict=True):
        assert one.device.type == "cpu"
        assert torch.equal(one, other)


def checkpoint(folder: Path, **parts: object) -> str:
    torch.save(parts, folder / "checkpoint.pt")
    return f"file:{folder / 'checkpoint.pt'}"


def test_a_checkpoint_says_under_which_key_its_weights_are(tmp_path: Path) -> None:
    digits = load_domains("digits")
    model = build_model("mlp", digits, seed=1, width=8)
    weights = model.state_dict()
    options = {"architecture": "mlp", "width": 8}

    def loaded(spec: str, **more: str) -> bool:
        again = load_model(spec, digits, **options, **more)
        return all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in weights.items())

    one = checkpoint(tmp_path, model=weights, epoch=3, optimizer={"state": {}, "param_groups": [{"lr": 0.1}]})
    with pytest.raises(ModelError, match="holds state dicts under 'model'; say which .* --set model.key=model"):
        load_model(one, digits, **options)
    assert loaded(one, key="model")
    with pytest.raises(ModelError, match="holds none under 'net', but under 'model'"):
        load_model(one, digits, **options, key="net")
    two = checkpoint(tmp_path, state_dict={name: 0 * tensor for name, tensor in weights.items()}, ema={"net": weights})
    with pytest.raises(ModelError, match="under 'state_dict', 'ema.net'"):
        load_model(two, digits, **options)
    assert loaded(two, key="ema.net")
    assert loaded(checkpoint(tmp_path, state_dict=weights, epoch=3))
    assert loaded(checkpoint(tmp_path, **{f"module.{name}": tensor for name, tensor in weights.items()}))
    with pytest.raises(ModelError, match="does not hold a state dict"):
        load_model(checkpoint(tmp_path, epoch=3), digits, **options)
    with pytest.raises(UsageError, match="should be a name inside the file"):
        load_model(one, digits, **options, key=3)


def test_weights_of_an_architecture_of_ones_own(run: Call, nets: Path, tmp_path: Path) -> None:
    from nets_of_bad_input import Own

    weights = Own().state_dict()
    spec = checkpoint(tmp_path, model=weights)
    torch.save(weights, tmp_path / "plain.pt")
    mine = ["--architecture", "python:nets_of_bad_input:Own"]
    plain = ["--model", f"file:{tmp_path / 'plain.pt'}"]
    assert "--architecture" in refused(run, nets, "certify", *DIGITS, *plain, "--n", "100")
    keyed = ["certify", *DIGITS, "--model", spec, *mine, "--n", "100", "--limit", "1", "--workers", "1"]
    assert "--set model.key=model" in refused(run, nets, *keyed)
    assert run(*keyed, "--set", "model.key=model")[0] == 0
    attack = ["attack", *DIGITS, *plain, *mine, "--threat", "l2:0.1", "--limit", "1", "--steps", "1", "--workers", "1"]
    assert run(*attack)[0] == 0
    assert run("explain", *DIGITS, *plain, *mine)[0] == 0
    assert run("train", *DIGITS, *plain, *mine, "--set", "training.steps=1")[0] == 0
    audit = [
        "audit",
        *DIGITS,
        *plain,
        *mine,
        "--target",
        "e=0.9",
        "--limit",
        "2",
        "--estimate",
        "--corruptions",
        "none",
    ]
    assert run(*audit)[0] == 0


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_errors_on_a_terminal_break_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "40")
    with pytest.raises(SystemExit):
        main(["ls", "zzz"])
    lines = screen.getvalue().splitlines()
    assert len(lines) > 2
    assert all(len(line) <= 40 for line in lines)
    assert " ".join(lines).startswith("error: unknown kind 'zzz'. Known: attacks, certifiers, corruptions,")


def test_findings_on_a_terminal_break_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    for name, value in {"COLUMNS": "40", "NO_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    message = "a sentence of many different words that does not fit into a line of a narrow terminal"
    show_findings([Finding("warn", "code", message)])
    say(message)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in screen.getvalue().splitlines()]
    assert all(len(line) <= 40 for line in lines)
    assert " ".join(lines) == f"warn {message} {message}"


def test_ls_without_a_kind_is_one_screen(run: Call) -> None:
    _, out, _ = run("ls")
    assert len(out.splitlines()) <= 40
    for name in ("colored-digits", "mlp-cayley", "trades", "training.steps", "pgd", "quickstart", "shiftproof ls KIND"):
        assert name in out


def test_a_log_line_is_written_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0, 11.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with progress_bar("work", 2, "lines") as bar:
        bar.advance()
        bar.advance()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["work: 1/2", "work: 2/2"]


STUDY = """
data: colored-digits
target: e=0.9
models: {plain: {model: {name: mlp, width: 8}, objective: erm, training: {steps: 2}}}
limit: 4
"""


def test_the_report_says_when_and_of_what_and_prints_whole(run: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(STUDY)
    assert run("run", tmp_path / "small.yaml", "--out", tmp_path / "r")[0] == 0
    page, record = (tmp_path / "r" / "report.html").read_text(), json.loads((tmp_path / "r" / "run.json").read_text())
    made = page[page.index("How it was made") :]
    assert record["started"][:10] in made
    assert record["fingerprints"]["weights"]["plain"] in made
    for value in record["fingerprints"]["data"].values():
        assert value in made
    # on paper nothing scrolls
    paper = page[page.index("@media print") :]
    assert ".scroll { overflow: visible; }" in paper
    # and on a screen cells wrap before a table scrolls: nothing but words for screen readers is kept on one line
    style = page[page.index("<style>") : page.index("</style>")]
    assert [line.split("{")[0].strip() for line in style.splitlines() if "nowrap" in line] == [".spoken", ".g-id"]
