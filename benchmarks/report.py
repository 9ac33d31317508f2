"""How long a report takes: the page of ten models on 20,000 rows of evidence, and a chart against Vega-Lite's.

    python benchmarks/report.py [--json]

Both draw the same forty curves as SVG, interleaved, best of several rounds; only the ratio is a claim. Seconds of the
page are of this machine.
"""

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
import vl_convert

from shiftproof.display.axes import numbers_axis, share_axis
from shiftproof.display.chart import Chart, Key, Panel, style_of
from shiftproof.display.marks import Dots, Line, Mark
from shiftproof.evidence import Column, Evidence, Measurement
from shiftproof.report import Report
from shiftproof.report.page import render_page

MODELS, DOMAINS, SAMPLES = 10, ("photo", "cartoon", "sketch", "chat"), 50
CURVES, POINTS, ROUNDS = 40, 80, 3
UNITS = {"norm": "l2", "units": "pixel values in [0, 1]"}
CERTIFIED = tuple(
    Column(name, kind, "")  # type: ignore[arg-type]
    for name, kind in (("radius", "float"), ("skipped", "bool"), ("bound", "text"))
)


def evidence() -> Evidence:
    """Ten measurements of each model on each domain: clean, attacked, corrupted by seven kinds, certified."""
    generator, found = np.random.default_rng(0), []
    for model in range(MODELS):
        for domain in DOMAINS:
            found.append(measured(generator, model, domain, "clean", confidence=generator.random(SAMPLES)))
            attack = {**UNITS, "eps": 0.25, "attack": "pgd", "threat": "l2", "title": "attack, l2 0.25"}
            found.append(measured(generator, model, domain, "attack", **attack))
            for kind in range(7):
                corrupted = {"corruption": f"fog {kind}", "severity": 3, "title": f"fog {kind}"}
                found.append(measured(generator, model, domain, "corrupt", **corrupted))
            facts = {**UNITS, "title": "gaussian 0.25", "scale": 0.25, "alpha": 0.001, "guarantee": "Sure."}
            radii = {"radius": generator.random(SAMPLES), "skipped": False, "bound": "clopper-pearson"}
            found.append(measured(generator, model, domain, "certify", classifier="smoothed", **facts, **radii))
    return Evidence(found)


def measured(generator: np.random.Generator, model: int, domain: str, probe: str, **known: object) -> Measurement:
    """One measurement with two classes."""
    label, answer = generator.integers(0, 2, SAMPLES), generator.integers(0, 2, SAMPLES)
    declared = [one for one in (*CERTIFIED, Column("confidence", "float", "")) if one.name in known]
    columns = {one.name: np.broadcast_to(np.asarray(known.pop(one.name)), SAMPLES) for one in declared}
    columns |= {"id": np.array([f"{domain}/{i}" for i in range(SAMPLES)]), "label": label, "prediction": answer}
    facts = {"model": f"model {model}", "domain": domain, "probe": probe, "setting": known.get("title", probe)}
    facts |= {"title": probe, "classifier": "base", **known}
    return Measurement.of(facts, {**columns, "correct": label == answer}, declared)


def page(found: Evidence) -> str:
    """The report of it."""
    labels = {domain: {"cat": SAMPLES, "dog": SAMPLES} for domain in DOMAINS}
    models = {str(name): "" for name in found.distinct("model")}
    report = Report("t", "", models, DOMAINS[:-1], DOMAINS[-1:], ("cat", "dog"), found, {}, {}, labels, (), 0)
    return render_page(report)


def ours(curves: list[np.ndarray]) -> str:
    """A chart of curves with a value at every point."""
    styles, marks = style_of(f"curve {i}" for i in range(len(curves))), list[Mark]()
    x = np.linspace(0, 1, POINTS).tolist()
    for (name, style), curve in zip(styles.items(), curves, strict=True):
        points = list(zip(x, curve.tolist(), strict=True))
        hints = [f"{name}: {y:.1%}" for y in curve]
        marks += [Line(points, style, (name,), "before"), Dots(points, style, (name,), hints, hidden=True)]
    panel = Panel(marks, numbers_axis("radius", x), share_axis("certified accuracy"))
    return Chart("curves", [panel], [Key(name, style) for name, style in styles.items()]).svg()


def vega(curves: list[np.ndarray]) -> str:
    """The same lines without values at their points, by Vega-Lite."""
    x = np.linspace(0, 1, POINTS).tolist()
    values = [{"c": i, "x": a, "y": float(b)} for i, curve in enumerate(curves) for a, b in zip(x, curve, strict=True)]
    places = {name: {"field": name, "type": "quantitative"} for name in ("x", "y")}
    encoding = {**places, "color": {"field": "c", "type": "nominal"}}
    mark = {"type": "line", "interpolate": "step-before"}
    chart = {"data": {"values": values}, "mark": mark, "encoding": encoding, "width": 880, "height": 300}
    return str(vl_convert.vegalite_to_svg(chart))


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = evidence()
    pages = [seconds(lambda: page(found)) for _ in range(ROUNDS)]
    curves = [np.sort(np.random.default_rng(i).random(POINTS))[::-1] for i in range(CURVES)]
    vega(curves)  # starts its engine, which takes seconds
    rounds = [(seconds(lambda: ours(curves)), seconds(lambda: vega(curves))) for _ in range(ROUNDS)]
    mine, theirs = (min(one[side] for one in rounds) for side in (0, 1))
    result = {
        "page": {"rows": found.rows, "models": MODELS, "seconds": min(pages), "bytes": len(page(found))},
        "chart": {"ratio_vega": theirs / mine, "seconds": mine},
    }
    if asked.json:
        print(json.dumps(result))
    else:
        print(f"page: {found.rows:,} rows, {MODELS} models: {min(pages):.2f} s, {result['page']['bytes']:,} bytes")
        print(f"chart: {mine * 1000:.0f} ms, {theirs / mine:.1f} times as fast as Vega-Lite")


if __name__ == "__main__":
    main()
