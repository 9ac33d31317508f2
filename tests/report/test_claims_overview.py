"""The table of all claims in a README, made of the verdicts beside the pages."""

import csv
from pathlib import Path

import pytest

from shiftproof.report.claims.overview import BEGIN, END, OVER_TARGETS, claims_overview, with_overview

PAGES = Path(__file__).parents[2] / "docs" / "reproductions"
COLUMNS = ("claim", "says", "verdict", "why", "sentence", "part verdict", "this", "that")
PUBLISHED = ("published this", "published that")


def write(folder: Path, name: str, *rows: dict[str, str], more: tuple[str, ...] = ()) -> None:
    (folder / name).mkdir()
    with (folder / name / "claims.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*more, *COLUMNS, *PUBLISHED], restval="")
        writer.writeheader()
        writer.writerows(rows)


def row(claim: str, verdict: str = "supported", **fields: str) -> dict[str, str]:
    usual = {"says": "it holds", "why": "so", "sentence": "accuracy of a", "part verdict": verdict}
    return {"claim": claim, "verdict": verdict, **usual, "this": "0.5", "that": "0.25", **fields}


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines()[2:]]


def test_claims_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    write(tmp_path, "later", row("K0.10"), row("K0.9"))
    write(tmp_path, "first", row("K0.9", "undecided"))
    told = [(one[0], one[4], one[5]) for one in cells(claims_overview(tmp_path))]
    assert told == [
        ("K0.9", "undecided", "[first](first.md)"),
        ("K0.9", "supported", "[later](later.md)"),
        ("K0.10", "supported", "[later](later.md)"),
    ]


def test_figures_of_both_sides_and_published_ones(tmp_path: Path) -> None:
    write(
        tmp_path,
        "study",
        row("K1", **{"published this": "0.9", "published that": "0.8"}),
        row("K2", sentence="acr of a is above that of b", that=""),
        row("K3", "needs data: X", this="", that="", why="needed for all of it"),
    )
    shares, radius, absent = cells(claims_overview(tmp_path))
    assert shares[2:5] == ["90.0 % against 80.0 %", "50.0 % against 25.0 %", "supported"]
    assert radius[2:5] == ["-", "mean radius 0.500", "supported"]
    assert absent[2:5] == ["-", "needed for all of it", "needs data: X"]


def test_of_several_comparisons_those_that_decide(tmp_path: Path) -> None:
    parts = [("supported", "0.9"), ("contradicted", "0.1"), ("undecided", "0.3")]
    write(tmp_path, "study", *(row("K1", "contradicted", **{"part verdict": one, "this": this}) for one, this in parts))
    (only,) = cells(claims_overview(tmp_path))
    assert only[3] == "10.0 % against 25.0 %; 30.0 % against 25.0 %; of 3 comparisons"


def test_over_targets_alone(tmp_path: Path) -> None:
    write(
        tmp_path,
        "study",
        {"target": OVER_TARGETS, **row("K1", this="0.4")},
        {"target": "photo", **row("K1", this="0.7")},
        more=("target",),
    )
    (only,) = cells(claims_overview(tmp_path))
    assert only[3] == "40.0 % against 25.0 %"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no table", "no table"),
        (f"a\n{BEGIN}\nold", f"a\n{BEGIN}\nold"),
        (f"a\n{BEGIN}\nold\n{END}\nb", "a\n{begin}\n\n{table}\n{end}\nb"),
    ],
)
def test_a_readme_has_it_where_it_asks_for_it(text: str, told: str, tmp_path: Path) -> None:
    write(tmp_path, "study", row("K1"))
    wanted = told.format(begin=BEGIN, end=END, table=claims_overview(tmp_path))
    assert with_overview(text, tmp_path) == wanted
    assert with_overview(wanted, tmp_path) == wanted


def test_the_readme_of_the_reproductions_has_the_verdicts_of_its_pages() -> None:
    text = (PAGES / "README.md").read_text()
    assert BEGIN in text
    assert with_overview(text, PAGES) == text
    for page in {one[5].partition("(")[2].rstrip(")") for one in cells(claims_overview(PAGES))}:
        assert (PAGES / page).is_file(), page
