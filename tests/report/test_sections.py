"""Sections of a report: when they apply, their tables in every format, and sections of plug-ins."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image
from voted import certified

from shiftproof.cli.show import show_accuracy, show_measures
from shiftproof.display.axes import numbers_axis, share_axis
from shiftproof.display.chart import Chart, Key, Panel, style_of
from shiftproof.display.marks import Dots, Line
from shiftproof.errors import ConformanceError
from shiftproof.evidence import Column, Evidence, Measurement
from shiftproof.report import SECTIONS, Report, Section, write_report
from shiftproof.report.claims import Claim, PublishedRow, judge_claims
from shiftproof.report.how_far import KnownPair
from shiftproof.report.page import FORMATS, render_page
from shiftproof.report.requirements import Requirement
from shiftproof.report.sections.sweeps import Sweep
from shiftproof.report.tables import Cell, Heading, Row, Table, csv_file, latex_file, markdown_file
from shiftproof.types import Finding

N = 40
DOMAINS = ("photo", "sketch")
CERTIFIED = (Column("radius", "float", ""), Column("skipped", "bool", ""), Column("bound", "text", ""))
CLAIMED = (
    *(Column(name, "float", "") for name in ("radius", "distance")),
    *(Column(name, "bool", "") for name in ("claimed", "refuted")),
)
PAIRS = tuple(Column(name, "float", "") for name in ("radius", "distance", "margin"))
CERTIFY = {
    "classifier": "smoothed",
    "norm": "l2",
    "units": "pixels",
    "scale": 0.25,
    "alpha": 0.001,
    "guarantee": "Sure.",
}
ATTACK = {"norm": "l2", "units": "pixels", "attack": "pgd", "threat": "l2", "how": "10 steps"}


def measurement(
    domain: str, probe: str, right: int, declared: tuple[Column, ...] = (), /, model: str = "m", **known: Any
) -> Measurement:
    """N samples of a domain, of which the first `right` are right; values of declared columns are in `known`."""
    columns: dict[str, Any] = {
        "id": [f"{domain}/{i}" for i in range(N)],
        "label": [i % 2 for i in range(N)],
        "prediction": [i % 2 if i < right else 1 - i % 2 for i in range(N)],
        "correct": [i < right for i in range(N)],
        **{column.name: np.broadcast_to(known.pop(column.name), N) for column in declared},
    }
    facts = {"model": model, "domain": domain, "probe": probe, "setting": known.get("title", probe)}
    return Measurement.of({"classifier": "base", "title": probe, **facts, **known}, columns, declared)


def measured(section: str) -> Iterator[Measurement]:
    """What a section needs, on two domains."""
    distance, latent = (Column(name, "float", "") for name in ("distance", "latent_distance"))
    losses = tuple(Column(name, "float", "") for name in ("loss_change", "loss_bound"))
    hidden = tuple(Column(name, "float", "") for name in ("hidden_change", "hidden_cosine"))
    trials = tuple(Column(name, "float", "") for name in ("accuracy", "source_accuracy"))
    scores = tuple(Column(name, "float", "") for name in ("truth", "predicted"))
    for domain, right in zip(DOMAINS, (36, 24), strict=True):
        sure = {"confidence": np.linspace(0.5, 1, N)} if section == "calibration" else {}
        yield measurement(domain, "clean", right, tuple(Column(name, "float", "") for name in sure), **sure)
        if section in ("attacked", "matrix", "measures", "verdict", "curves"):
            for eps in (0.25, 0.5):
                facts = {**ATTACK, "eps": eps, "title": f"attack, l2 {eps:g}", "distance": eps}
                yield measurement(domain, "attack", right - int(20 * eps), (distance,), **facts)
        if section == "corrupted":
            facts = {"corruption": "fog", "severity": 3, "constants": "cifar"}
            yield measurement(domain, "corrupt", right - 5, **facts)
        if section == "best-values":
            for model, lost in (("weak", 9), ("middle", 3), ("strong", 20)):
                facts = {"model": model, "corruption": "fog", "severity": 3, "constants": "cifar"}
                yield measurement(domain, "corrupt", right - lost, **facts)
        if section in ("certified", "curves"):
            facts = {**CERTIFY, "title": "gaussian 0.25", "radius": 0.3, "skipped": False, "bound": "clopper-pearson"}
            yield measurement(domain, "certify", right - 8, CERTIFIED, **facts)
        if section in ("around", "mixes", "vote-shares"):
            yield certified(domain, right - 8, n=N)
        elif section == "counterfactual":
            facts = {"radius": 0.1, "distance": 0.2, "margin": 0.3, "constant": 1.0}
            yield measurement(domain, "counterfactual", right, PAIRS, **facts)
        elif section == "search":
            for size, changed in ((0.0, 0), (0.5, 6), (None, 0)):
                facts = {
                    "search": "s",
                    "norm": "l2",
                    "eps": size,
                    "title": f"search, l2 {size}",
                    "latent_distance": 0.4,
                }
                yield measurement(domain, "search", right - changed, (latent,), **facts)
        elif section == "refuted":
            facts = {**CERTIFY, "title": "refute, adapted", "rule": "adapted", "unsound": "as-published", "level": 1e-6}
            facts |= {"radius": 0.3, "claimed": True, "refuted": np.arange(N) < 3, "distance": 0.2}
            yield measurement(domain, "refute", right, CLAIMED, **facts)
        elif section == "loss-change":
            facts = {"title": "input robustness, linf 0.02", "loss_change": 0.1, "loss_bound": 0.4}
            facts |= {"norm": "linf", "eps": 0.02, "dimensions": 3072}
            yield measurement(domain, "input-robustness", right, losses, **facts)
        elif section == "hidden-state":
            facts = {"threat": "embedding-linf", "eps": 0.001, "hidden_change": 0.2, "hidden_cosine": 0.999}
            yield measurement(domain, "hidden-state", right, hidden, **facts)
        elif section == "scores":
            facts = {"truth": np.arange(N) / 10, "predicted": np.arange(N) / 10 + (np.arange(N) % 7 > 3)}
            yield measurement(domain, "score", right, scores, **facts)
        elif section == "trials":
            facts = {"dataset": "PACS", "accuracy": 0.5, "source_accuracy": 0.6}
            yield measurement(domain, "trials", right, trials, **facts)
        elif section == "agreement":
            facts = {**CERTIFY, "title": "gaussian 0.25", "radius": 0.3, "skipped": False, "bound": "clopper-pearson"}
            yield measurement(domain, "certify", right - 8, CERTIFIED, **facts)
        elif section == "levels":
            rule = {"name": "median-smoothing", "level": "logits", "sigma": 0.1, "radius": 0.1, "unsound": ""}
            facts = {**CERTIFY, "title": "median logits", "radius": 0.1, "skipped": False, "bound": "order-statistics"}
            facts |= {"certifier": rule, "chosen": np.arange(N) % 2}
            yield measurement(domain, "certify", right - 8, (*CERTIFIED, Column("chosen", "int", "")), **facts)
        elif section == "probe-accuracy":
            yield measurement(domain, "noisy", right - 2, title="under noise, gaussian 0.25")
        elif section == "under-noise":
            asked = {"noise": {"name": "gaussian", "sigma": 0.25}, "adapted": False, "draws": 1}
            yield measurement(domain, "noisy", right - 2, asked=asked, noise="gaussian 0.25")


def report_of(evidence: Evidence, folder: Path | None = None, **changes: Any) -> Report:
    sheets = {}
    if folder is not None:
        sheets = {domain: folder / f"samples-{domain}.png" for domain in DOMAINS}
        for path in sheets.values():
            Image.new("RGB", (4, 4)).save(path)
    known: dict[str, Any] = {
        "title": "A report",
        "about": "of a test",
        "models": {str(name): "a model" for name in evidence.distinct("model")},
        "sources": ("photo",),
        "targets": ("sketch",),
        "classes": ("cat", "dog"),
        "evidence": evidence,
        "sheets": sheets,
        "facts": {"seed": "0"},
        "labels": {domain: {"cat": N // 2, "dog": N // 2} for domain in DOMAINS},
        "notes": (),
        "seed": 0,
    }
    return Report(**{**known, **changes})


def applying(section: str, folder: Path) -> Report:
    """A report in which a section applies."""
    evidence = Evidence(list(measured(section)))
    outcomes = [Requirement.parse("clean>=0.5").judge(evidence, ["sketch"])] if section == "requirements" else []
    claim = {"id": "C1", "says": "it holds", "metric": "accuracy", "model": "m", "above": 0.5, "effect": 0.0}
    said = [Claim.model_validate(claim | {"model": evidence[0].model})] if section == "claims" else []
    changes: dict[str, Any] = {"outcomes": outcomes, "claims": judge_claims(said, evidence, domain="sketch")}
    if section == "published":
        number = PublishedRow("001", "Table 2", "CMNIST", "GLEAN", "certified", 0.1, 0.605, None, "m", "sketch")
        changes["published"] = [replace(number, level=level) for level in (0.0, 0.1, 0.2)]
    if section == "how-far":
        places = [("photo", "sketch", "pair"), ("photo", "photo", "halves"), ("sketch", "sketch", "halves")]
        changes["domain_distances"] = [
            KnownPair("kernel", "pixels", *place, 0.5, (N, N), 0.1, 0.3, 0.7)  # type: ignore[arg-type]
            for place in places
        ]
    if section == "best-values":
        changes["sweeps"] = [Sweep("objective.threat.eps", ((0.1, "weak"), (0.2, "middle"), (0.3, "strong")))]
    if section == "sweeps":
        changes["sweeps"] = [Sweep("objective.sigma", ((0.1, evidence[0].model),))]
    if section == "changes":
        changes["changes"] = folder / "samples-photo.png"
    if section == "gradients":
        changes["gradients"] = {domain: folder / f"samples-{domain}.png" for domain in DOMAINS}
    return report_of(evidence, folder, **changes)


def bare() -> Report:
    """A report with next to nothing: no clean accuracy, no target, no pictures."""
    evidence = Evidence([measurement("photo", "corrupt", 30, corruption="fog", severity=3, constants="cifar")])
    return report_of(evidence, sources=("photo",), targets=(), models=dict.fromkeys("abc", ""))


NAMES = [entry.name for entry in SECTIONS]


@pytest.mark.parametrize("name", NAMES)
def test_a_section_that_applies_is_on_the_page(name: str, tmp_path: Path) -> None:
    report = applying(name, tmp_path)
    section = report.sections[name]
    assert section.title
    assert (SECTIONS[name].cls.__doc__ or "").strip()
    # the figures of attacks stand in the table of all measures; their charts are on the page where there are sizes
    shown = [block for card in section.cards() for block in card.blocks]
    if name != "matrix":
        assert section.title in render_page(report)
    assert {one.name for one in shown if isinstance(one, Table)} <= {one.name for one in section.tables()}
    assert {one.name for one in shown if isinstance(one, Chart)} <= {one.name for one in section.charts()}
    assert json.loads(json.dumps(section.to_json(), allow_nan=False))
    assert name in report.to_json()["sections"]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "provenance"])
def test_a_section_that_does_not_apply_is_nowhere(name: str, tmp_path: Path) -> None:
    others = {
        "corrupted": list(measured("accuracy")),
        # of a probe of somebody's own there is no line to draw
        **{key: [measurement("photo", "noisy", 30, title="under noise")] for key in ("overview", "verdict")},
    }
    report = report_of(Evidence(others[name])) if name in others else bare()
    assert name not in report.sections
    title = SECTIONS[name].cls.title
    assert f"{title}</h2>" not in render_page(report)


def test_sections_stand_in_their_order(tmp_path: Path) -> None:
    report = applying("attacked", tmp_path)
    first = ["verdict", "overview", "findings", "matrix", "attacked", "measures", "accuracy", "classes"]
    assert list(report.sections) == [*first, "gallery", "provenance"]
    orders = [entry.cls.order for entry in SECTIONS]
    assert len(set(orders)) == len(orders)


@pytest.mark.parametrize("name", NAMES)
def test_every_table_and_chart_is_written_in_every_format(name: str, tmp_path: Path) -> None:
    report = applying(name, tmp_path)
    written = {path.relative_to(tmp_path).as_posix() for path in write_report(report, tmp_path, FORMATS)}
    assert {"report.html", "report.json"} <= written
    for section in report.sections.values():
        for table in section.tables():
            assert {f"tables/{table.name}.{suffix}" for suffix in ("csv", "md", "tex")} <= written
        for chart in section.charts():
            assert {f"figures/{chart.name}.{suffix}" for suffix in ("svg", "png")} <= written
    for path in (tmp_path / "tables").glob("*.csv"):
        head, *rows = csv.reader(io.StringIO(path.read_text()))
        assert rows
        assert all(len(row) == len(head) for row in rows)
    for path in (tmp_path / "tables").glob("*.md"):
        tables = [part.splitlines() for part in path.read_text().split("\n\n") if part.startswith("|")]
        assert tables
        assert all(len({line.count("|") for line in table}) == 1 for table in tables)
    for path in (tmp_path / "tables").glob("*.tex"):
        text = path.read_text()
        tables = text.count("\\begin{tabular}")
        assert text.startswith("% needs \\usepackage{booktabs}\n")
        rules = ("\\end{tabular}", "\\toprule", "\\midrule", "\\bottomrule")
        assert [text.count(rule) for rule in rules] == [tables] * 4
        # every row has as many cells as the table has columns
        for columns, body in re.findall(r"\\begin\{tabular\}\{(l+r*)\}(.*?)\\end", text, re.DOTALL):
            rows = [line for line in body.splitlines() if line.endswith(r" \\")]
            assert {len(re.split(r"(?<!\\)&", row)) for row in rows} == {len(columns)}
    assert set(json.loads((tmp_path / "report.json").read_text())["sections"]) == set(report.sections)


@pytest.fixture
def plug_in(monkeypatch: pytest.MonkeyPatch) -> type[Section]:
    monkeypatch.setattr(SECTIONS, "_entries", {entry.name: entry for entry in SECTIONS})

    @SECTIONS.register("worst-class")
    class WorstClass(Section):
        """The class that is wrong most often."""

        title: ClassVar[str] = "The <worst> class"
        order: ClassVar[int] = 650

        def applies(self) -> bool:
            return len(self.report.evidence.where(probe="clean")) > 0

        def words(self) -> list[str]:
            return ["Measured on clean samples."]

        def tables(self) -> list[Table]:
            rows = [Row([Cell("m"), Cell("=dog", ("of two",))])]
            return [Table("worst-class", [Heading("model"), Heading("worst")], rows)]

        def charts(self) -> list[Chart]:
            style = style_of(["m"])["m"]
            panel = Panel(
                [Dots([(1.0, 0.5)], style, ("m",), ["<half>"])], numbers_axis("x", [0, 2]), share_axis("share")
            )
            return [Chart("worst-class", [panel], [Key("m", style)])]

    return WorstClass


def test_a_section_of_a_plug_in_is_in_page_tables_figures_and_json(plug_in: type[Section], tmp_path: Path) -> None:
    report = applying("measures", tmp_path)
    assert list(report.sections).index("worst-class") == list(report.sections).index("measures") + 1
    write_report(report, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "The &lt;worst&gt; class</h2>" in page
    assert "<title>&lt;half&gt;</title>" in page
    assert "Measured on clean samples." in page
    assert (tmp_path / "tables" / "worst-class.csv").read_text() == 'model,worst\nm,"\'=dog, of two"\n'
    assert (tmp_path / "tables" / "worst-class.tex").is_file()
    assert "<svg" in (tmp_path / "figures" / "worst-class.svg").read_text()
    numbers = json.loads((tmp_path / "report.json").read_text())["sections"]["worst-class"]
    assert numbers == {"worst-class": [{"model": "m", "worst": "=dog, of two"}]}


@pytest.mark.parametrize(("name", "sentence"), [("accuracy", "both have a table"), ("../up", "no name for a file")])
def test_a_table_of_a_plug_in_has_a_file_of_its_own(
    plug_in: type[Section], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, sentence: str
) -> None:
    monkeypatch.setattr(plug_in, "tables", lambda self: [Table(name, [Heading("a")], [Row([Cell("b")])])])
    with pytest.raises(ConformanceError, match=sentence):
        write_report(applying("measures", tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("name", "sentence"), [("accuracy", "both have a chart"), ("../up", "no name for a file")])
def test_a_chart_of_a_plug_in_has_a_file_of_its_own(
    plug_in: type[Section], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, sentence: str
) -> None:
    monkeypatch.setattr(plug_in, "charts", lambda self: [Chart(name, [])])
    with pytest.raises(ConformanceError, match=sentence):
        write_report(applying("measures", tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_names_in_latex_stay_texts() -> None:
    odd = r"*[50 %] {a_b} #1 & $x$ ~^\ <|>"
    grouped = Table("t", [Heading("n"), Heading("value")], [Row([Cell(odd), Cell("1")], group="m")])
    row = latex_file([grouped]).splitlines()[5]
    assert row == (
        r"  m & {*}{[}50 \%] \{a\_b\} \#1 \& \$x\$ \textasciitilde{}\textasciicircum{}\textbackslash{} "
        r"\textless{}\textbar{}\textgreater{} & 1 \\"
    )
    assert "{llr}" in latex_file([grouped])


def test_a_section_should_derive_from_the_base() -> None:
    from shiftproof.errors import UsageError

    with pytest.raises(UsageError, match="should derive from shiftproof.report.section.Section"):
        SECTIONS.register("nothing")(type("Nothing", (), {}))


def test_tables_of_one_name_share_files() -> None:
    tables = [
        Table(
            "t", [Heading("model"), Heading("n", ("all",))], [Row([Cell("a|b"), Cell("1")])], caption=f"part {i} of 50%"
        )
        for i in (1, 2)
    ]
    assert csv_file(tables) == "model,n all\na|b,1\na|b,1\n"
    assert markdown_file(tables).count("| model | n all |") == 2
    assert "part 2 of 50%" in markdown_file(tables)
    assert "part 2 of 50\\%" in latex_file(tables)
    assert "part" not in markdown_file(tables[:1])


@pytest.mark.parametrize("name", ["measures", "accuracy"])
def test_columns_stand_in_one_order_on_page_in_files_and_on_the_terminal(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = report_of(Evidence(list(measured(name))))
    (table,) = report.sections[name].tables()
    expected = ["sketch", "gap", "photo"]
    assert [heading.text for heading in table.headings][1:] == expected
    markdown = markdown_file([table]).splitlines()[0]
    show = {"measures": lambda: show_measures(report.measures), "accuracy": lambda: show_accuracy(report.accuracy)}
    show[name]()
    terminal = next(line for line in capsys.readouterr().out.splitlines() if "gap" in line)
    page = re.search(rf'<section id="{name}".*?<thead>(.*?)</thead>', render_page(report), re.DOTALL)
    assert page is not None
    for text in (markdown, terminal, page[1]):
        assert sorted(expected, key=text.index) == expected
    values = [cell.text for cell in table.rows[0].cells][1:]
    assert values == ["60.0%", "+30.0", "90.0%"]


def score_report(**noise: float) -> Report:
    """Numbers of every domain, each predicted with some noise."""
    declared = tuple(Column(name, "float", "") for name in ("truth", "predicted"))
    truth, generator = np.arange(N) / 10, np.random.default_rng(0)
    rows = [
        measurement(domain, "score", 0, declared, truth=truth, predicted=truth + size * generator.standard_normal(N))
        for domain, size in noise.items()
    ]
    sources = tuple(name for name in noise if name.startswith("source"))
    targets = tuple(name for name in noise if name not in sources)
    return report_of(Evidence(rows), sources=sources, targets=targets, classes=(), labels={name: {} for name in noise})


def test_charts_of_predictions_have_the_same_axes_and_show_where_they_are_exact() -> None:
    _, *charts = score_report(source=0.1, target=3.0).sections["scores"].charts()
    panels = [panel for chart in charts for panel in chart.panels]
    axes = [(axis.low, axis.high) for panel in panels for axis in (panel.x, panel.y)]
    numbers = [number for panel in panels for dot in panel.marks[1].points for number in dot]
    assert len(panels) == 2
    assert len(numbers) == 2 * 2 * N
    assert set(axes) == {(min(numbers), max(numbers))}
    for panel in panels:
        assert panel.marks[0].points == [(end, end) for end in axes[0]]


class TestVerdictOfNumbers:
    def test_the_worst_of_several_targets(self) -> None:
        report = score_report(source_a=0.1, source_b=0.2, near=0.3, far=3.0)
        (text,) = report.verdict
        assert text.startswith(f"On {N} samples of far, the worst of 2 targets, what the model predicts and the ")
        assert (
            f"; on {2 * N} samples of the training domains one of 0.99. It loses 0.80 (95 % interval 0.50 to 1.10)."
            in text
        )
        assert list(report.sections)[:4] == ["verdict", "overview", "findings", "scores"]

    def test_what_samples_do_not_tell(self) -> None:
        (text,) = score_report(source=2.0, target=2.0).verdict
        assert "These samples can't tell whether any of it is lost: the gap is " in text

    def test_a_gain(self) -> None:
        (text,) = score_report(source=5.0, target=0.01).verdict
        (row,) = (row for row in score_report(source=5.0, target=0.01).scores.rows if row.kind == "pearson")
        lost = row.gaps["target"]
        assert f"It gains {-lost.value:.2f} (95 % interval {-lost.high:.2f} to {-lost.low:.2f})." in text

    def test_without_a_target(self) -> None:
        (text,) = score_report(source_a=0.1, source_b=0.2).verdict
        assert text.startswith(f"On {2 * N} samples of source_a, source_b what the model predicts and the true ")
        assert "training domains" not in text


def of_targets(section: str, *targets: str, models: tuple[str, ...] = ("m",)) -> Report:
    """A section's measurements on photos, and on each of the targets what it measures on sketches."""
    rows = []
    for one in measured(section):
        for domain in targets if one.domain == "sketch" else (one.domain,):
            rows += [Measurement({**one.facts, "domain": domain, "model": model}, one.table) for model in models]
    labels = {domain: {"cat": N // 2, "dog": N // 2} for domain in ("photo", *targets)}
    return report_of(Evidence(rows), targets=targets, labels=labels)


def lines_of(chart: Chart) -> list[Line]:
    """The lines of a chart of one panel."""
    (panel,) = chart.panels
    return [mark for mark in panel.marks if isinstance(mark, Line)]


def shown_dots(chart: Chart) -> list[Dots]:
    """Its dots, without those that are for the pointer alone."""
    return [mark for mark in chart.panels[0].marks if isinstance(mark, Dots) and not mark.hidden]


TARGETS = tuple(f"target-{i}" for i in range(8))


class TestLinesOfSeveralTargets:
    """Each can be told from the others: in colour, in black and white, and by its name in the legend."""

    @pytest.mark.parametrize("models", [("m",), ("m", "other")])
    def test_certified(self, models: tuple[str, ...]) -> None:
        (chart,) = of_targets("certified", *TARGETS, models=models).sections["certified"].charts()
        lines = lines_of(chart)
        assert len(lines) == len(models) * 9
        looks = {(one.style.colour, one.style.dash, one.style.shape) for one in lines}
        assert len(looks) == len(lines)
        if len(models) == 1:
            # in black and white
            assert len({(one.style.dash, one.style.shape) for one in lines}) == len(lines)
        svg = chart.svg()
        for name in (*(f"{target}, unseen" for target in TARGETS), "source"):
            assert f">{name}</text>" in svg

    def test_attacked(self) -> None:
        (chart,) = of_targets("attacked", *TARGETS).sections["attacked"].charts()
        lines = {one.of[0]: one.style for one in lines_of(chart)}
        assert set(lines) == {"photo", *TARGETS}
        assert len({(style.dash, style.shape) for style in lines.values()}) == 9
        assert lines["photo"].dash == (5, 4)
        assert all(f">{name}</text>" in chart.svg() for name in ("photo", *TARGETS))

    def test_dots_are_few_and_not_on_each_other(self) -> None:
        (chart,) = of_targets("certified", "sketch", "cartoon").sections["certified"].charts()
        dots = {one.of[1]: [x for x, _ in one.points] for one in shown_dots(chart)}
        assert not set(dots["sketch, unseen"]) & set(dots["cartoon, unseen"])
        lines = sum(len(one.points) for one in lines_of(chart))
        assert 8 * sum(map(len, dots.values())) < lines

    def test_one_target_needs_no_dots(self) -> None:
        (chart,) = of_targets("certified", "sketch").sections["certified"].charts()
        assert {one.of: one.style.dash for one in lines_of(chart)} == {("m", "unseen"): (), ("m", "source"): (5, 4)}
        assert not shown_dots(chart)
        assert [key.name for key in chart.keys] == ["m", "unseen", "source"]
        assert "solid on the unseen domain, dashed on sources" in chart.words

    def test_edits_have_ticks_at_whole_numbers_and_dots_there(self) -> None:
        edits = {"norm": "edits", "units": "words inserted, deleted or replaced"}
        rows = [Measurement({**one.facts, **edits}, one.table) for one in of_targets("certified", "sketch").evidence]
        (chart,) = report_of(Evidence(rows)).sections["certified"].charts()
        ticks = [value for value, _ in chart.panels[0].x.ticks]
        assert ticks == list(range(len(ticks)))
        assert [one.points for one in shown_dots(chart)] == [one.points for one in lines_of(chart)]

    def test_a_band_of_100_points_is_not_mentioned(self) -> None:
        rows = [one.take(np.arange(1)) for one in of_targets("certified", "sketch").evidence]
        (chart,) = report_of(Evidence(rows)).sections["certified"].charts()
        assert "points" not in chart.words


def test_failed_checks_are_said_first(tmp_path: Path) -> None:
    notes = [Finding("pass", "fine", "all is well"), Finding("fail", "odd", "inputs are odd")]
    report = report_of(Evidence(list(measured("verdict"))), notes=notes)
    assert report.verdict[0].startswith("What follows can't be trusted")
    assert report.findings[0].level == "fail"


def test_bounds_on_distributions_nearby_say_that_they_are_vacuous(tmp_path: Path) -> None:
    words = " ".join(applying("loss-change", tmp_path).sections["loss-change"].words())
    # ceil(1 / 0.01) ** 3072 cells, against as many samples as there are
    assert "Vacuous" in words
    assert "10^6,144 cells" in words
