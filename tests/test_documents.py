"""What the documents say is true: their blocks run, their links lead somewhere, nothing public is left out."""

import re
from pathlib import Path

import pytest
from documents import DOCUMENTS, ROOT, blocks_of, groups_of, missing, reader_folder, run_block

import shiftproof
from shiftproof.runs import run_study

README = ROOT / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
TEXTS = {path: path.read_text() for path in [*DOCUMENTS, CONTRIBUTING]}


def _cases() -> list[object]:
    cases = []
    for document in DOCUMENTS:
        for together, blocks in groups_of(document).items():
            marks = [pytest.mark.slow] if "slow" in blocks[0].marks else []
            name = f"{document.stem}{f' ({together})' if together else ''}"
            cases.append(pytest.param(document, together, id=name, marks=marks))
    return cases


@pytest.mark.parametrize(("document", "together"), _cases())
def test_the_blocks_of_a_document_run(
    document: Path, together: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = groups_of(document)[together]
    if reason := missing(blocks[0].marks.get("needs", "")):
        pytest.skip(reason)
    # in one process: starting workers takes longer than these examples
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    namespace: dict[str, object] = {}
    with reader_folder(tmp_path) as folder:
        for block in blocks:
            run_block(block, folder, namespace)


def test_few_blocks_are_not_run() -> None:
    left = [block.where for path in DOCUMENTS for block in blocks_of(path) if "not run" in block.marks]
    assert len(left) <= 8, left


def test_commands_and_their_options_exist() -> None:
    """Of all command lines, those included that no test runs."""
    import typer

    from shiftproof.cli.main import app

    root = typer.main.get_command(app)
    for path in [*DOCUMENTS, CONTRIBUTING]:
        for block in blocks_of(path):
            for words in block.commands if block.language == "sh" else []:
                if words[0] != "shiftproof":
                    continue
                command, rest = root, words[1:]
                while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
                    assert rest[0] in command.commands, f"{block.where}: there is no verb {rest[0]}"
                    command, rest = command.commands[rest[0]], rest[1:]
                known = {option for parameter in command.params for option in parameter.opts}
                known |= {option for parameter in command.params for option in parameter.secondary_opts}
                unknown = [word for word in rest if word.startswith("--") and word.split("=")[0] not in known]
                assert unknown in ([], ["--help"]), f"{block.where}: {unknown}"


def test_links_between_documents_lead_somewhere() -> None:
    for path, text in TEXTS.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.S)):
            if "://" in link:
                continue
            place, _, anchor = link.partition("#")
            target = path.parent / place if place else path
            assert target.exists(), f"{path.name}: {link}"
            if anchor:
                assert anchor in _anchors(target.read_text()), f"{path.name}: {link}"


def _anchors(text: str) -> set[str]:
    """As code hosts make them: lower case, without punctuation, dashes for spaces."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_verb_and_every_public_name_is_mentioned() -> None:
    from shiftproof.cli.main import app

    verbs = {str(info.name) for info in [*app.registered_commands, *app.registered_groups]}
    every = "\n".join(TEXTS[path] for path in DOCUMENTS)
    assert [verb for verb in sorted(verbs) if f"shiftproof {verb}" not in TEXTS[README]] == []
    assert [name for name in shiftproof.__all__ if not re.search(rf"\bsp\.{name}\b", every)] == []


def test_everything_in_the_catalogues_is_mentioned() -> None:
    from shiftproof.attacks import ATTACKS
    from shiftproof.certification import CERTIFIERS
    from shiftproof.domains.registry import DOMAINS
    from shiftproof.models import MODELS
    from shiftproof.objectives import OBJECTIVES
    from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS
    from shiftproof.perturbations.noise import NOISES
    from shiftproof.probes import PROBES

    every = "\n".join(TEXTS[path] for path in DOCUMENTS)
    catalogues = (ATTACKS, CERTIFIERS, CORRUPTIONS, DOMAINS, MODELS, NOISES, OBJECTIVES, PROBES)
    names = [entry.name for catalogue in catalogues for entry in catalogue]
    assert [name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", every)] == []


def test_the_readme_is_one_page() -> None:
    assert len(TEXTS[README].splitlines()) <= 130


RESULTS = ("as they are", "points lost", "attacked, l2 0.25", "corrupted, 15 kinds", "certified, l2 0.25")


def _table() -> dict[str, dict[str, list[float]]]:
    """The README's table of results: the figures of every cell, by model and column."""
    lines = [line for line in TEXTS[README].splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    start = next(i for i, row in enumerate(rows) if row[0] == "on the unseen domain")
    assert tuple(rows[start][1:]) == RESULTS
    return {
        row[0]: {name: [float(one) for one in re.findall(r"[+-]?\d+\.\d+", cell)] for name, cell in zip(RESULTS, row[1:])}
        for row in rows[start + 2 : start + 6]
    }


# other hardware may round otherwise, which can move a sample or two of 397
NEAR = {"abs": 1.0}


def test_the_first_figures_of_the_readme_are_those_of_the_quickstart(tmp_path: Path) -> None:
    """Two of its models, as they are; the slow test compares all."""
    from shiftproof.runs import find_study

    study = find_study("quickstart", ["probes=[clean]"])
    models = {name: study.models[name] for name in ("sees colour", "gray reference")}
    run = run_study(study.model_copy(update={"models": models}), tmp_path / "run", progress="off")
    for row in run.content().table().rows:
        measured, told = row.accuracy["e=0.9"], _table()[row.model]
        assert told["as they are"] == pytest.approx([100 * x for x in (measured.value, measured.low, measured.high)], **NEAR)
        assert row.gap is not None
        assert told["points lost"] == pytest.approx([100 * x for x in (row.gap.value, row.gap.low, row.gap.high)], **NEAR)


@pytest.mark.slow
def test_all_figures_of_the_readme_are_those_of_the_quickstart(tmp_path: Path) -> None:
    run = run_study("quickstart", tmp_path / "run", progress="off")
    table = _table()
    assert set(table) == set(run.study.models)
    for row in run.content().measures.rows:
        one, told = row.measure, table[row.model]
        if (one.classifier == "base" or one.kind == "certified") and one.size in (0.0, 0.25):
            column = {"clean": 0, "attacked": 2, "corrupted": 3, "certified": 4}[one.kind]
            measured = row.accuracy["e=0.9"]
            if one.kind == "certified" and one.size == 0.0:
                continue
            expected = [100 * x for x in (measured.value, measured.low, measured.high)]
            assert told[RESULTS[column]] == pytest.approx(expected[: len(told[RESULTS[column]])], **NEAR)


def test_the_readme_says_what_its_example_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = [block for block in blocks_of(README) if block.language == "python"]
    text = next(block.text for block in blocks if "# 15" in block.text)
    exec(compile(text, "README.md", "exec"), {})
    printed = re.search(r"([\d.]+)% \(", capsys.readouterr().out)
    promised = re.search(r"# ([\d.]+)% \(", text)
    assert printed is not None
    assert promised is not None
    assert float(printed.group(1)) == pytest.approx(float(promised.group(1)), abs=1.0)


def test_studies_in_the_documents_are_valid() -> None:
    from shiftproof.runs import parse_study

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
