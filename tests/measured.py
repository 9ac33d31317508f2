"""Made-up evidence of one model: so many samples of a domain are right, survive an attack or are certified."""

from __future__ import annotations

from typing import Any

from shiftproof.evidence import Column, Evidence, Measurement

N = 100


def rows(domain: str, probe: str, right: int, **facts: Any) -> Evidence:
    """N samples of a domain, of which the first `right` are right."""
    known: dict[str, Any] = {
        "model": "m",
        "domain": domain,
        "probe": probe,
        "setting": facts.get("title", probe),
        "classifier": "base",
        "title": probe,
        **facts,
    }
    columns: dict[str, Any] = {
        "id": [f"{domain}/{i}" for i in range(N)],
        "label": [0] * N,
        "prediction": [0] * right + [1] * (N - right),
        "correct": [True] * right + [False] * (N - right),
    }
    declared = [one for one in CERTIFIED if one.name in known]
    for name in ["prediction", "label", *(column.name for column in declared)]:
        if name in known:
            value = known.pop(name)
            columns[name] = value if isinstance(value, list) else [value] * N
    return Evidence([Measurement.of(known, columns, declared)])


CERTIFIED = (Column("radius", "float", ""), Column("skipped", "bool", ""), Column("bound", "text", ""))


def certified(domain: str, right: int, radius: float | list[float], **facts: Any) -> Evidence:
    known = {"classifier": "smoothed", "radius": radius, "norm": "l2", "units": "pixel values in [0, 1]", "scale": 0.25}
    known |= {"alpha": 0.001, "noise": "gaussian 0.25", "guarantee": "", "skipped": False, "bound": "clopper-pearson"}
    return rows(domain, "certify", right, **{"title": "gaussian 0.25", **known, **facts})


def attacked(domain: str, right: int, eps: float = 0.5, **facts: Any) -> Evidence:
    known = {"norm": "l2", "units": "pixel values in [0, 1]", "eps": eps, "title": f"attack, l2 {eps:g}"}
    return rows(domain, "attack", right, **{**known, **facts})


def smoothed_attack(domain: str, right: int, eps: float = 0.5, votes: int = 100_000) -> Evidence:
    title = f"attack, l2 {eps:g} on gaussian 0.25"
    return attacked(domain, right, eps, classifier="smoothed", noise="gaussian 0.25", votes=votes, title=title)
