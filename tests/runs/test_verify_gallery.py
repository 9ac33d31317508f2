"""What `verify` says of pages with and without samples."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_gallery import STUDY

from shiftproof.runs import Run
from shiftproof.runs.engine import run_study
from shiftproof.runs.study_files import validated
from shiftproof.runs.verify_texts import check_report


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of one model."""
    study = {**STUDY, "models": {"plain": STUDY["models"]["plain"]}, "limit": 12}
    return run_study(validated(study, "the test"), tmp_path_factory.mktemp("verify") / "run", progress="off")


@pytest.mark.parametrize("images", [True, False])
def test_a_page_is_the_one_that_evidence_gives_with_samples_or_without(made: Run, images: bool) -> None:
    made.export(images=images)
    assert {one.code for one in check_report(made)} == {"tables-same"}


@pytest.mark.parametrize("images", [True, False])
def test_an_edited_outcome_is_found(made: Run, images: bool) -> None:
    made.export(images=images)
    page: Path = made.folder / "report.html"
    page.write_text(page.read_text().replace("certified l2", "certified l2 9", 1))
    assert "table-differs" in {one.code for one in check_report(made)}


def test_an_edited_picture_is_found(made: Run) -> None:
    made.export()
    page: Path = made.folder / "report.html"
    text = page.read_text()
    place = text.index("base64,") + 60
    page.write_text(text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :])
    assert "table-differs" in {one.code for one in check_report(made)}
