"""Certificates in a notebook: the guarantee, the share of samples by radius as a table and as a curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from shiftproof.certification.curves import NOTHING, curve, round_radii
from shiftproof.certification.imported import alpha_text
from shiftproof.display import badge, panel, small, table
from shiftproof.display.axes import numbers_axis, share_axis
from shiftproof.display.chart import Chart, Panel
from shiftproof.display.marks import Dots, Line, Mark, Style
from shiftproof.errors import UsageError
from shiftproof.perturbations.edits import readable_radii
from shiftproof.perturbations.threat import size_text
from shiftproof.types import FloatArray

if TYPE_CHECKING:
    from shiftproof.certification.certificates import Certificates

__all__ = ["certificates_html", "certified_curve"]

_POINTS = 120
_WITHOUT = "share certified, right or wrong"


def certificates_html(certificates: Certificates) -> str:
    """The guarantee as a sentence, the share of samples by radius, and on how many there is no answer."""
    labels, n = certificates.details.get("labels"), len(certificates)
    title = f"{certificates.title or 'Certificates'}: {n:,} samples, {_radius_words(certificates)}"
    try:
        earned = _earned(certificates, labels)
    except UsageError as error:
        return str(panel(title, badge("fail", str(error))))
    if not n:
        return str(panel(title, small("No samples.")))
    most = float(earned.max())
    edits = certificates.norm == "edits"
    radii = round_radii(max(most, 0.0), edits=edits)
    shares = [f"{share:.1%}" for share in curve(earned, radii)]
    heads = ["at all" if not radius else size_text(radius, certificates.norm) for radius in radii]
    abstained, skipped = int(certificates.abstained.sum()), int(certificates.skipped.sum())
    counts = [f"abstains on {abstained:,} of {n:,}", *([f"{skipped:,} skipped, wrong already"] if skipped else [])]
    counts += [f"largest radius {most:.4g}"] if most > 0 else []
    unsound = badge("fail", f"Nothing is guaranteed: these are claims of an unsound rule ({certificates.unsound}).")
    sentence = unsound if certificates.unsound else certificates.guarantee
    rows = [[_axis_title(certificates, labels), *shares]]
    hint = "" if labels is not None else "; with labels: metrics.certified_accuracy(certificates, labels, radii)"
    return str(panel(title, sentence, table(["within", *heads], rows), small(f"{'; '.join(counts)}{hint}.")))


def certified_curve(certificates: Certificates, labels: ArrayLike | None = None) -> Chart:
    """Certified accuracy by radius; without labels, the share of samples that are certified, right or wrong."""
    known = certificates.details.get("labels") if labels is None else labels
    if not len(certificates):
        raise UsageError("there are no certificates to plot: the domain has no samples")
    earned = _earned(certificates, known)
    farthest = max(float(earned.max()), 0.0)
    edits = certificates.norm == "edits"
    radii = np.arange(farthest // 1 + 2) if edits else np.linspace(0, max(farthest, 1e-3) * 1.02, _POINTS)
    name, style = _axis_title(certificates, known), Style()
    points = list(zip(radii.tolist(), curve(earned, radii).tolist(), strict=True))
    hints = [f"{size_text(float(f'{radius:.4g}'), certificates.norm)}: {share:.1%}" for radius, share in points]
    ticks = radii.tolist() if edits else ()
    x = numbers_axis(f"radius ({certificates.norm}, {certificates.units})", radii.tolist(), ticks=ticks)
    # of edits there are whole numbers only, and dots say which
    marks: list[Mark] = [Line(points, style, step="before"), Dots(points, style, hints=hints, size=3, hidden=not edits)]
    what = {
        _WITHOUT: "The share of samples whose answer is guaranteed within the radius, whether it is right or not.",
        "certified accuracy": "The share of samples that are right, and provably stay so within the radius.",
    }.get(name, "What an unsound rule claims: nothing of it is certified.")
    words = f"{what} {certificates.title}, {len(certificates):,} samples, {alpha_text(certificates.alpha)}."
    return Chart("certified", [Panel(marks, x, share_axis(name))], words=words)


def _earned(certificates: Certificates, labels: ArrayLike | None) -> FloatArray:
    """The radius of every sample that is certified and, where labels are known, right; `NOTHING` for the others."""
    if not np.isfinite(certificates.radius).all():
        raise UsageError("a radius is not a finite number; these certificates were changed, or come from elsewhere")
    held = (certificates.prediction >= 0) & ~certificates.skipped
    if labels is not None:
        wanted = np.asarray(labels)
        if wanted.shape != certificates.prediction.shape:
            raise UsageError(f"there are {len(certificates)} certificates but labels of shape {wanted.shape}")
        held &= certificates.prediction == wanted
    return np.where(held, readable_radii(certificates.radius, certificates.norm), NOTHING)


def _axis_title(certificates: Certificates, labels: ArrayLike | None) -> str:
    if certificates.unsound:
        return "claimed, not certified"
    return _WITHOUT if labels is None else "certified accuracy"


def _radius_words(certificates: Certificates) -> str:
    where = f"radius in {certificates.norm} ({certificates.units})"
    return f"{where}, {alpha_text(certificates.alpha)}" if certificates.alpha else f"{where}, nothing is random"
