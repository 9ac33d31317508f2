"""What the documents say is true: their blocks run, their links lead somewhere, nothing public is left out."""

import re
from pathlib import Path

import pytest
import typer
from documents import DOCUMENTS, ROOT, blocks_of, groups_of, missing, reader_folder, run_block

import shiftproof
from shiftproof.runs import parse_study, run_study

README = ROOT / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
SOURCE = ROOT / "src" / "shiftproof"
TEXTS = {path: path.read_text() for path in [*DOCUMENTS, CONTRIBUTING]}
EVERY = "\n".join(TEXTS[path] for path in DOCUMENTS)


def _cases() -> list[object]:
    cases = []
    for document in DOCUMENTS:
        for together, blocks in groups_of(document).items():
            marks = [pytest.mark.slow] if "slow" in blocks[0].marks else []
            name = f"{document.stem}{f' ({together})' if together else ''}"
            cases.append(pytest.param(document, together, id=name, marks=marks))
    return cases


@pytest.mark.usefixtures("least_effort", "brief_trials", "brief_examination")
@pytest.mark.parametrize(("document", "together"), _cases())
def test_the_blocks_of_a_document_run(
    document: Path,
    together: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where a block says what it prints (`# 15.1% (...`), it prints that."""
    blocks = groups_of(document)[together]
    if reason := missing(blocks[0].marks.get("needs", "")):
        pytest.skip(reason)
    # in one process: starting workers takes longer than these examples
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    namespace: dict[str, object] = {}
    with reader_folder(tmp_path) as folder:
        for block in blocks:
            run_block(block, folder, namespace)
            printed = [float(one) for one in re.findall(r"([\d.]+)% \(", capsys.readouterr().out)]
            for told in re.findall(r"# ([\d.]+)% \(", block.text):
                assert any(one == pytest.approx(float(told), **NEAR) for one in printed), block.where


def test_few_blocks_are_not_run() -> None:
    left = [block.where for path in DOCUMENTS for block in blocks_of(path) if "not run" in block.marks]
    assert len(left) <= 4, left


def test_commands_and_their_options_exist() -> None:
    """Of all command lines, those included that no test runs."""
    from shiftproof.cli.main import app

    for path in TEXTS:
        for block in blocks_of(path):
            for words in block.commands if block.language == "sh" else []:
                if words[0] == "shiftproof":
                    assert _unknown(typer.main.get_command(app), words[1:]) == [], block.where


def _unknown(command: object, words: list[str]) -> list[str]:
    """The first word if it is no verb, or the options that the verb does not have."""
    verbs = getattr(command, "commands", None)
    if verbs is not None and words and not words[0].startswith("-"):
        return _unknown(verbs[words[0]], words[1:]) if words[0] in verbs else words[:1]
    parameters = command.params  # type: ignore[attr-defined]
    known = {"--help", *(option for one in parameters for option in [*one.opts, *one.secondary_opts])}
    return [word for word in words if word.startswith("--") and word.split("=")[0] not in known]


def test_links_between_documents_lead_somewhere() -> None:
    for path, text in TEXTS.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", _without_blocks(text)):
            if "://" in link:
                continue
            place, _, anchor = link.partition("#")
            target = path.parent / place if place else path
            assert target.exists(), f"{path.name}: {link}"
            assert not anchor or anchor in _anchors(target.read_text()), f"{path.name}: {link}"


def _without_blocks(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.S)


def _anchors(text: str) -> set[str]:
    """As code hosts make them: lower case, without punctuation, dashes for spaces."""
    headings = re.findall(r"^#+ (.*)$", _without_blocks(text), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_verb_and_every_public_name_is_mentioned() -> None:
    from shiftproof.cli.main import app

    verbs = {str(info.name) for info in [*app.registered_commands, *app.registered_groups]}
    assert [verb for verb in sorted(verbs) if f"shiftproof {verb}" not in TEXTS[README]] == []
    assert [name for name in shiftproof.__all__ if not re.search(rf"\bsp\.{name}\b", EVERY)] == []


def test_everything_in_the_catalogues_is_mentioned() -> None:
    from shiftproof.attacks import ATTACKS
    from shiftproof.certification import CERTIFIERS
    from shiftproof.domains.registry import DOMAINS
    from shiftproof.models import MODELS
    from shiftproof.objectives import OBJECTIVES
    from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS
    from shiftproof.perturbations.noise import NOISES
    from shiftproof.probes import PROBES

    catalogues = (ATTACKS, CERTIFIERS, CORRUPTIONS, DOMAINS, MODELS, NOISES, OBJECTIVES, PROBES)
    names = [entry.name for catalogue in catalogues for entry in catalogue]
    assert [name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", EVERY)] == []


def test_the_readme_is_one_page() -> None:
    assert len(TEXTS[README].splitlines()) <= 130


def test_pictures_are_small() -> None:
    assert [path.name for path in (ROOT / "docs" / "images").iterdir() if path.stat().st_size > 150_000] == []


def test_the_architecture_names_every_folder_and_traces_an_audit_through_few_files_that_exist() -> None:
    text = TEXTS[ARCHITECTURE]
    folders = [path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()]
    assert [name for name in folders if f"| `{name}/` |" not in text] == []
    rows = re.findall(r"^\| \d+ \| (.*?) \|", text, re.M)
    assert rows
    named = [re.findall(r"`([^`]+\.py)`", row) for row in rows]
    # of several files in one row, the first says in which folder
    files = [SOURCE / Path(row[0]).parent / Path(one).name for row in named for one in row]
    assert [str(path) for path in files if not path.is_file()] == []
    assert len(files) <= 20


RESULTS = {
    "as they are": "clean",
    "points lost": "gap",
    "attacked, l2 0.25": "attacked",
    "corrupted, 15 kinds": "corrupted",
    "certified, l2 0.25": "certified",
}
# other hardware may round otherwise, which can move a sample or two of 397
NEAR = {"abs": 1.0}


def _results() -> dict[str, dict[str, list[float]]]:
    """The README's table of results: the figures of every cell, by model and kind."""
    lines = [line for line in TEXTS[README].splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    start = next(i for i, row in enumerate(rows) if row[0] == "on the unseen domain")
    assert rows[start][1:] == list(RESULTS)
    figures = [[re.findall(r"[+-]?\d+\.\d+", cell) for cell in row[1:]] for row in rows[start + 2 : start + 6]]
    return {
        row[0]: {kind: list(map(float, cell)) for kind, cell in zip(RESULTS.values(), cells, strict=True)}
        for row, cells in zip(rows[start + 2 : start + 6], figures, strict=True)
    }


def test_the_readme_says_the_same_twice() -> None:
    """Its example trains the first model of its table, and what that prints is checked where the example runs."""
    told = re.findall(r"# ([\d.]+)% \(([\d.]+)% to ([\d.]+)%\)", TEXTS[README])
    assert [list(map(float, one)) for one in told] == [_results()["sees colour"]["clean"]]


@pytest.mark.slow
def test_the_figures_of_the_readme_are_those_of_the_quickstart(tmp_path: Path) -> None:
    run, told = run_study("quickstart", tmp_path / "run", progress="off"), _results()
    assert set(told) == set(run.study.models)
    compared = 0
    for row in run.content().measures.rows:
        one, cells = row.measure, told[row.model]
        if (one.kind == "certified" and one.size != 0.25) or (one.kind != "certified" and one.classifier != "base"):
            continue
        estimates = {one.kind: row.accuracy["e=0.9"]} | ({"gap": row.gaps["e=0.9"]} if one.kind == "clean" else {})
        for kind, estimate in estimates.items():
            assert estimate is not None
            figures = [100 * figure for figure in (estimate.value, estimate.low, estimate.high)]
            assert cells[kind] == pytest.approx(figures[: len(cells[kind])], **NEAR), (row.model, kind)
            compared += 1
    assert compared == len(told) * len(RESULTS)


def test_studies_in_the_documents_are_valid(tmp_path: Path) -> None:
    studies = [block for path in DOCUMENTS for block in blocks_of(path) if re.search("^models:", block.text, re.M)]
    assert studies
    for block in studies:
        assert parse_study(block.text, block.where, "documents").models


def test_decisions_are_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text()
    assert all(path.name in index for path in folder.glob("0*.md"))


def test_the_version_is_said_once_everywhere() -> None:
    from importlib.metadata import version

    assert f"version: {version('shiftproof')}" in (ROOT / "CITATION.cff").read_text()
