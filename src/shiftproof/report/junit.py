"""Requirements, claims and findings as JUnit XML, which continuous integration shows as tests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol
from xml.etree import ElementTree

from shiftproof.report.claims.judge import ClaimOutcome
from shiftproof.types import Finding

__all__ = ["Case", "Judged", "claim_cases", "finding_cases", "junit_xml", "outcome_cases"]

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no place for, not even escaped: control characters, halves of a pair."""


class Judged(Protocol):
    """The outcome of a requirement, whatever it was judged by."""

    @property
    def text(self) -> str:
        """The requirement as it was written."""

    @property
    def met(self) -> bool:
        """Whether it is met."""

    @property
    def model(self) -> str:
        """Model name, where there are several."""


@dataclass(frozen=True)
class Case:
    """A test as continuous integration shows it.

    pass is shown as passed, with the message as its output; fail as failed; warn as skipped, because that is the one
    state that GitHub's reporters, GitLab and Jenkins list apart from passed tests without failing a pipeline.
    """

    suite: str
    name: str
    level: Literal["pass", "warn", "fail"]
    message: str


def outcome_cases(outcomes: Iterable[Judged]) -> Iterator[Case]:
    """One for each requirement; failed where it is not met."""
    for one in outcomes:
        name = f"{one.model}: {one.text}" if one.model else one.text
        yield Case("requirements", name, "pass" if one.met else "fail", str(one))


def finding_cases(findings: Iterable[Finding]) -> Iterator[Case]:
    """One for each finding, by its code: a message holds figures, and a name should be the same the next time."""
    for one in findings:
        yield Case("findings", one.code, one.level, one.message)


def claim_cases(claims: Iterable[ClaimOutcome]) -> Iterator[Case]:
    """One for each claim: failed unless it is supported, skipped where it can't be tested here."""
    for one in claims:
        level: Literal["pass", "warn", "fail"] = "pass" if one.verdict == "supported" else "fail"
        message = f"{one.says}: {one.verdict}{f', {one.why}' if one.why else ''}"
        yield Case("claims", one.id, level if one.judged else "warn", message)


def junit_xml(title: str, cases: Sequence[Case]) -> bytes:
    """The cases as one JUnit file: a suite of each kind, names in it that occur once.

    >>> text = junit_xml("audit", [Case("requirements", "clean>=0.8", "fail", "clean>=0.8 is not met")]).decode()
    >>> '<testsuites name="audit" tests="1" failures="1" errors="0" skipped="0">' in text
    True
    """
    root = ElementTree.Element("testsuites", {"name": _clean(title), **_counts(cases)})
    for suite in dict.fromkeys(one.suite for one in cases):
        mine = [one for one in cases if one.suite == suite]
        element = ElementTree.SubElement(root, "testsuite", {"name": _clean(suite), **_counts(mine)})
        seen: Counter[str] = Counter()
        for one in mine:
            seen[one.name] += 1
            name = one.name if seen[one.name] == 1 else f"{one.name} ({seen[one.name]})"
            _add(element, _clean(f"{title}.{suite}"), _clean(name), one.level, _clean(one.message))
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _add(suite: ElementTree.Element, classname: str, name: str, level: str, message: str) -> None:
    case = ElementTree.SubElement(suite, "testcase", {"classname": classname, "name": name, "time": "0"})
    if level == "fail":
        ElementTree.SubElement(case, "failure", {"message": message, "type": "failed"}).text = message
    elif level == "warn":
        ElementTree.SubElement(case, "skipped", {"message": f"warning: {message}"})
    else:
        ElementTree.SubElement(case, "system-out").text = message


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    levels = Counter(one.level for one in cases)
    counts = {"tests": len(cases), "failures": levels["fail"], "errors": 0, "skipped": levels["warn"]}
    return {name: str(count) for name, count in counts.items()}


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
