"""What findings mean and what to do about them, for a reader who meets them first on a page."""

from __future__ import annotations

from dataclasses import dataclass

from shiftproof.types import Finding

__all__ = ["Advice", "advice_on"]


@dataclass(frozen=True)
class Advice:
    """What a finding means, and what to do."""

    means: str
    do: str

    def __str__(self) -> str:
        return f"{self.means} {self.do}"


_LEAKS = Advice(
    "Samples that were trained on, or copies of them, are easier than new ones: accuracy is too high there.",
    "Remove the copies, or split by group, and measure again.",
)
_MASKED = Advice(
    "Gradients do not show the way to mistakes that exist, so that accuracy under attack may be far too high.",
    "Trust certificates before attacks here; attack with ensemble, which also searches without gradients.",
)
_SHORT = Advice(
    "What survives this attack may fall to a longer one: the accuracy under attack is an upper limit.",
    "Give --steps and restarts, or a larger --budget, before you compare with published figures.",
)
_INPUTS = Advice(
    "eps, sigma and radii are stated for images in [0, 1]; of other inputs they mean something else.",
    "Put the normalisation inside the model: shiftproof.Normalized(model, mean, std).",
)
_FEW = Advice(
    "The interval is wider than a difference that matters: it may be lost or not.",
    "Measure more samples (a larger --limit, or none), of groups more groups.",
)
_STATE = Advice(
    "The same input gets different answers, so that neither attacks nor certificates are about one function.",
    "Call model.eval(), and take randomness and batch statistics out of the forward pass.",
)
_ADVICE = {
    "collapse": Advice(
        "What the model learned on its training domains misleads it here: it is worse than guessing.",
        "Do not ship it to this domain. Train with an objective for several domains (irm, v-rex, group-dro, coral).",
    ),
    "gap": Advice(
        "The domain costs accuracy that training domains do not tell of.",
        "Expect the figure of the unseen domain, not that of the sources; train with a domain objective and compare.",
    ),
    "undecided": _FEW,
    "guarantee-undecided": _FEW,
    "guarantee-shrinks": Advice(
        "The guarantee itself stays true, but fewer samples of the unseen domain have it.",
        "Quote the unseen domain's share; more noise in training, or a domain objective, may bring it back.",
    ),
    "guarantee-none": Advice(
        "The model changes its answers under the noise of the certificate.",
        "Train it with that noise (--objective gaussian), or certify with less noise (--sigma).",
    ),
    "not-learned": Advice(
        "A classifier that always gives one answer is robust and useless.",
        "Train longer, or look at the labels, before anything else is read off this report.",
    ),
    "constant-answer": Advice(
        "One answer for everything survives every attack and can be certified; it is right by luck.",
        "Read certified and attacked accuracy beside the share of that class.",
    ),
    "no-target": Advice(
        "Sources alone say nothing of a domain that was not trained on.",
        "Name the domain you ship to with --target.",
    ),
    "sandwich-broken": Advice(
        "A sample was certified and yet overturned: a certificate, the attack or the evidence is wrong.",
        "Run shiftproof verify on this folder, and do not use its certificates before that is explained.",
    ),
    "certificates-refuted": Advice(
        "An attack found another class inside a certified radius, more often than chance explains.",
        "Run shiftproof verify on this folder, and do not use these certificates before that is explained.",
    ),
    "shift-order-broken": Advice(
        "A guarantee around a domain exceeds what was really found there, which can't be.",
        "Run shiftproof verify on this folder.",
    ),
    "sandwich-untested": Advice(
        "No attack tried to overturn what is certified here.",
        "Run shiftproof verify, which attacks inside certified balls.",
    ),
    "unsound": Advice(
        "The rule is shown as published and proves nothing; its figures are nowhere counted as certified.",
        "Use the sound certificate beside it.",
    ),
    "duplicates": _LEAKS,
    "near-duplicates": _LEAKS,
    "trained-copies": _LEAKS,
    "shared-groups": _LEAKS,
    "torn-groups": _LEAKS,
    "target-seen": Advice(
        "The target was among the domains that the model was trained on: it is not unseen.",
        "Train without it, or name another target.",
    ),
    "seen-unknown": Advice(
        "Nothing says whether the model was trained on these samples.",
        "Measure a part that training can't have had, or train with shiftproof, which records it.",
    ),
    "gradient-masking": _MASKED,
    "zero-gradients": _MASKED,
    "gradients-in-forward": _MASKED,
    "jumping-outputs": _MASKED,
    "changed-by-rounding": _MASKED,
    "weak-attack": _SHORT,
    "short-attack": _SHORT,
    "attack-unfinished": _SHORT,
    "reach": _SHORT,
    "raw-steps": _SHORT,
    "random-points": Advice(
        "Random changes are far weaker than chosen ones of the same size.",
        "Read it beside an attack that searches: pgd, or ensemble.",
    ),
    "random-model": _STATE,
    "stateful-model": _STATE,
    "softmax-outputs": Advice(
        "Outputs are probabilities; attacks on them see next to no gradient where the model is sure.",
        "Return logits: take the softmax off the model.",
    ),
    "input-range": _INPUTS,
    "input-scale": _INPUTS,
    "class-count": Advice(
        "The model's outputs are not one for each class of the data.",
        "Check that classes have the same names and order as in training.",
    ),
    "class-mismatch": Advice(
        "Domains do not have the same classes, so that their accuracies are of different questions.",
        "Compare class by class, or leave the class out.",
    ),
    "texts-cut": Advice(
        "The model does not read texts to their end, and edits behind the cut do nothing.",
        "Give it a larger width, or shorten the texts yourself.",
    ),
    "not-installed": Advice(
        "A part of what made this run is not here, so that it is shown by what was recorded.",
        "Install it to compute anything again.",
    ),
}


def advice_on(finding: Finding) -> Advice | None:
    """What a warning or failure means; None for what passed, and for what says it all itself."""
    return None if finding.level == "pass" else _ADVICE.get(finding.code)
