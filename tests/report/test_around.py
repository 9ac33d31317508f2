"""What a report says about distributions around each domain, as a pure function of evidence."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from voted import certified, votes_of

from shiftproof.errors import UsageError
from shiftproof.evidence import Column, Evidence, Measurement
from shiftproof.report import Report
from shiftproof.report.requirements import Certifiable, Measurable, Requirement
from shiftproof.report.sections.mixes import shares_of
from shiftproof.report.sections.vote_shares import gap_of_radii, vote_shares
from shiftproof.report.shift import nice_distances, shift_order, shift_series
from shiftproof.theory import shift_certificate

N = 400


def attacked(domain: str, right: int, distance: float, **facts: Any) -> Measurement:
    """The vote, attacked: the first `right` samples stay right, the others are wrong at a distance."""
    known = {"model": "m", "domain": domain, "probe": "attack", "setting": "attack", "classifier": "smoothed"}
    known |= {"norm": "l2", "units": "pixel values in [0, 1]", "eps": 1.0, "noise": "gaussian 0.5", "votes": 10**8}
    known |= {"seen_in_training": "no", "chose_weights": "no", "title": "attack, l2 1 on gaussian 0.5", **facts}
    columns = {
        "id": [str(i) for i in range(N)],
        "label": [0] * N,
        "prediction": [0] * right + [1] * (N - right),
        "correct": [True] * right + [False] * (N - right),
        "distance": [distance] * N,
    }
    return Measurement.of(known, columns, (Column("distance", "float", ""),))


def clean(domain: str, right: int) -> Measurement:
    known = {"model": "m", "domain": domain, "probe": "clean", "setting": "clean", "classifier": "base"}
    known |= {"seen_in_training": "no", "chose_weights": "no"}
    answers = [0] * right + [1] * (N - right)
    columns = {"id": [str(i) for i in range(N)], "label": [0] * N, "prediction": answers}
    return Measurement.of(known, columns | {"correct": [one == 0 for one in answers]})


def report_of(*measurements: Measurement, **options: Any) -> Report:
    names = dict.fromkeys(one.domain for one in measurements)
    return Report(
        **{
            "title": "t",
            "about": "",
            "models": {"m": ""},
            "sources": tuple(name for name in names if name != "sketch"),
            "targets": ("sketch",),
            "classes": ("a", "b", "c"),
            "evidence": Evidence(measurements),
            "sheets": {},
            "facts": {},
            "labels": {name: {"a": N, "b": 0, "c": 0} for name in names},
            "notes": [],
            "seed": 0,
            **options,
        }
    )


def test_curves_are_those_of_the_pure_function() -> None:
    one = shift_series(Evidence([certified("sketch", 300)]))[0]
    labels = np.where(np.arange(N) < 300, 0, 1)
    own = shift_certificate(votes_of(300, 990), labels, domain="sketch")
    eps = np.linspace(0, 1, 20)
    assert (one.at(eps) == own.at(eps)).all()
    assert one.ends == own.ends
    assert own.alpha == 1e-5
    sentence = one.sentence(0.1)
    assert re.fullmatch(
        r"\d+% are guaranteed \(95%\) on every distribution with the class shares of sketch within W1 0.1 of sketch "
        r"\(l2, pixel values in \[0, 1\]\)",
        sentence,
    )


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"seen_in_training": "yes"}, "trained on these samples"),
        ({"seen_in_training": "unknown"}, "trained on these samples"),
        ({"chose_weights": "yes"}, "decided which weights"),
        ({"chose_weights": "unknown"}, "may have decided"),
        ({"chose_weights": None}, "may have decided"),
        ({"sampled": "balanced"}, "balanced by class"),
    ],
)
def test_rows_that_may_not_be_used_are_refused_with_a_sentence(facts: dict[str, Any], words: str) -> None:
    one = shift_series(Evidence([certified("sketch", 300, **facts)]))[0]
    assert words in one.refusal
    assert one.ends == 0
    with pytest.raises(UsageError, match="no shift certificate"):
        one.at(0.1)
    section = report_of(certified("photo", 390), certified("sketch", 300, **facts)).sections["around"]
    shown = [badge.text for card in section.cards() for block in card.blocks for badge in getattr(block, "badges", ())]
    assert any(words in text and "m on sketch" in text for text in shown)
    outcome = Requirement.parse("shift@w1=0.1>=0.1").judge(Evidence([certified("sketch", 300, **facts)]), ["sketch"])
    assert not outcome.met
    assert words in str(outcome)


def test_unsound_rows_make_no_curve() -> None:
    assert shift_series(Evidence([certified("sketch", 300, unsound="as-published")])) == []


def test_several_training_seeds_hold_together() -> None:
    seeds = [certified("sketch", right, train_seed=seed) for seed, right in enumerate((300, 200, 310))]
    together = shift_series(Evidence(seeds))[0]
    alone = shift_series(Evidence([certified("sketch", 200)]))[0]
    # the worst seed, at a third of the chance of error
    assert 0 < together.at(0.1) < alone.at(0.1)
    assert together.ends < alone.ends


def test_groups_count() -> None:
    groups = [f"patient {i // 20}" for i in range(N)]
    one = shift_series(Evidence([certified("sketch", 300, group=groups)]))[0]
    assert one.first.n == 20
    assert one.at(0.0) < shift_series(Evidence([certified("sketch", 300)]))[0].at(0.0)


def test_requirements() -> None:
    evidence = Evidence([certified("photo", 390), certified("sketch", 300)])
    value = float(shift_series(evidence)[1].at(0.1))
    met = Requirement.parse(f"shift@w1=0.1>={value - 0.01:.4f}").judge(evidence, ["sketch"])
    missed = Requirement.parse(f"shift@w1=0.1>={value + 0.01:.4f}").judge(evidence, ["sketch"])
    assert (met.met, missed.met) == (True, False)
    assert met.measured.value == pytest.approx(value)
    order = [
        Requirement.parse(f"shift@{p}=0.1:photo>=0").judge(evidence, []).measured.value for p in ("w1", "w2", "winf")
    ]
    assert order[0] < order[1] <= order[2]
    planned = Measurable(("sketch",), certificates=(Certifiable("l2", "gaussian 0.5", 2.0),))
    Requirement.parse("shift@w1=9>=0.1").check(planned)
    with pytest.raises(UsageError, match="not planned"):
        Requirement.parse("shift@linf:w1=0.1>=0.1").check(planned)
    with pytest.raises(UsageError, match="not planned"):
        Requirement.parse("shift@w1=0.1>=0.1").check(Measurable(("sketch",)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("shift>=0.5", "needs a size"),
        ("shift@0.1>=0.5", "needs a distance"),
        ("certified@w1=0.1>=0.5", "has no w1"),
        ("shift@w3=0.1>=0.5", "can't read"),
        ("shift@w1=0.1<=0.5", "should say >="),
    ],
)
def test_requirements_that_make_no_sense(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Requirement.parse(text)


def test_attacks_bound_the_curve_from_above() -> None:
    held, hit = certified("sketch", 400), attacked("sketch", 100, 1.5)
    one = shift_series(Evidence([held, hit]))[0]
    eps = np.linspace(0, 2, 30)
    found = one.attacked(eps)
    assert found is not None
    assert (one.at(eps) <= found + 1e-12).all()
    assert found[-1] == pytest.approx(100 / N)
    assert found[0] == pytest.approx(1)
    assert not list(shift_order([one]))
    # an attack that leaves less than is certified: one of the two is wrong
    impossible = shift_series(Evidence([held, attacked("sketch", 100, 0.2)]))[0]
    assert [finding.code for finding in shift_order([impossible])] == ["shift-order-broken"]
    assert "shift-order-broken" in {one.code for one in report_of(held, attacked("sketch", 100, 0.2)).findings}


@pytest.mark.parametrize(
    "facts", [{"classifier": "base", "noise": None}, {"norm": "linf"}, {"noise": "gaussian 1.0"}, {"units": "radians"}]
)
def test_attacks_of_another_classifier_or_norm_bound_nothing(facts: dict[str, Any]) -> None:
    one = shift_series(Evidence([certified("sketch", 400), attacked("sketch", 100, 0.2, **facts)]))[0]
    assert one.attacked(np.array([0.1])) is None
    assert not one.broken()


def test_the_report_says_it_in_a_sentence_a_table_and_a_curve() -> None:
    report = report_of(certified("photo", 390), certified("sketch", 300), clean("photo", 390), clean("sketch", 310))
    around = report.sections["around"]
    records = around.tables()[0].records
    assert {row[1] for row in records.rows} == {"photo", "sketch"}
    assert {row[4] for row in records.rows} == {"W1", "W2", "W-infinity"}
    assert around.charts()[0].name == "around"
    assert around.charts()[0].svg().startswith("<svg")
    assert any(
        "guaranteed (95%) on every distribution with the class shares of sketch" in one for one in report.verdict
    )
    figures = around.to_json()
    assert figures["refused"] == []
    assert figures["curves"][1]["ends"] == pytest.approx(report.around[1].ends)
    assert 0 < nice_distances(report.around)[1] < report.around[0].ends


def test_why_a_mean_radius_is_smaller() -> None:
    report = report_of(certified("photo", 400), certified("sketch", 200))
    (there, gap), *_ = gap_of_radii(report.series, report.sources, report.targets)
    assert there.domain == "sketch"
    assert gap.by_radius == pytest.approx(0)
    assert gap.by_accuracy == pytest.approx(report.series[0].mean_radius() / 2)
    weaker = report_of(certified("photo", 400), certified("sketch", 400, count=900))
    (_, gap), *_ = gap_of_radii(weaker.series, weaker.sources, weaker.targets)
    assert gap.by_accuracy == pytest.approx(0)
    assert gap.by_radius > 0.1


def test_shares_of_votes() -> None:
    shares = vote_shares(certified("sketch", 300))
    assert sorted(set(shares.tolist())) == [0.01, 0.99]
    section = report_of(certified("photo", 390), certified("sketch", 300)).sections["vote-shares"]
    assert section.charts()[0].svg().startswith("<svg")
    assert len(vote_shares(clean("sketch", 3))) == 0


def test_other_mixes_begin_below_what_was_measured() -> None:
    evidence = Evidence([clean("sketch", 360), certified("sketch", 300)])
    shares = list(shares_of(evidence, shift_series(evidence)))
    titles = [one.title for one in shares]
    assert titles == ["as they are", "certified at all, gaussian 0.5", "certified within l2 0.25, gaussian 0.5"]
    assert shares[0].lower == pytest.approx(0.8718, abs=1e-3)
    # certificates share noise: what may be wrong together is taken off
    assert shares[1].lower < 0.75 - 0.03
    for one in shares:
        assert all(0 <= left < one.lower for left in one.left.values())
    seen = Evidence([replace_fact(one, "seen_in_training", "yes") for one in evidence])
    assert list(shares_of(seen, shift_series(seen))) == []


def replace_fact(one: Measurement, name: str, value: Any) -> Measurement:
    return Measurement({**one.facts, name: value}, one.table)


def test_votes_without_a_wrong_answer_end_late() -> None:
    one = shift_series(Evidence([certified("sketch", 400, count=1_000)]))[0]
    assert 0.5 < one.ends < math.inf


def test_one_noisy_draw_is_another_classifier() -> None:
    report = report_of(certified("photo", 390), certified("sketch", 300))
    one = report.around[1]
    assert one.one_draw is not None
    tables = {table.name: table for table in report.sections["around"].tables()}
    assert set(tables) == {"around", "one-draw"}
    values = {(row[1], row[4], row[5]): row[6] for row in tables["one-draw"].records.rows}
    assert values["sketch", "larger of both", 0.0] == pytest.approx(float(one.one_draw.at(0.0)))
    grouped = certified("sketch", 300, group=[f"patient {i // 2}" for i in range(N)])
    assert shift_series(Evidence([grouped]))[0].one_draw is None


def test_attacks_without_distances_bound_nothing() -> None:
    flags = attacked("sketch", 100, 0.2)
    flags = Measurement(flags.facts, flags.table.drop_columns(["distance"]))
    one = shift_series(Evidence([certified("sketch", 400), flags]))[0]
    assert one.attacked(np.array([0.1])) is None
    assert not one.broken()


def imported(one: Measurement) -> Measurement:
    """As if others had logged it."""
    place = one.table.column_names.index("bound")
    return Measurement(one.facts, one.table.set_column(place, "bound", pa.array(["imported"] * len(one))))


def test_a_log_that_claims_more_than_votes_can_give_makes_no_curve() -> None:
    claimed = imported(certified("sketch", 400, count=1_000, imported="log.tsv"))
    assert shift_series(Evidence([claimed]))[0].sentence(0.1).startswith("as the imported log claims, ")
    few = imported(certified("sketch", 400, count=1_000, imported="log.tsv", votes=10))
    assert "more than so many votes can certify" in shift_series(Evidence([few]))[0].refusal


def test_the_sentence_is_of_the_first_target_not_of_the_best_curve() -> None:
    report = report_of(certified("photo", 399), certified("sketch", 300))
    words = [word for card in report.sections["around"].cards() for word in card.words]
    assert any("within W1" in word and "of sketch" in word for word in words)
    assert not any("are guaranteed (95%)" in word and "of photo" in word for word in words)


def test_infinite_radii_in_groups_end_where_the_bound_does() -> None:
    held = votes_of(400, 990)
    half = replace(held, radius=np.where(np.arange(400) % 2, np.inf, 1.0), noise=None, alpha=0.0)
    found = shift_certificate(half, np.zeros(400, np.int64), groups=[str(i // 2) for i in range(400)])
    assert found.at(found.ends * 1.01) == 0
    assert 0 < found.ends < math.inf
