"""JUnit XML, read again with parsers of the standard library."""

from __future__ import annotations

from xml.dom import minidom
from xml.etree import ElementTree

import pytest

from shiftproof.report.claims.judge import ClaimOutcome, RequiredClaims
from shiftproof.report.junit import Case, claim_cases, finding_cases, junit_xml, outcome_cases
from shiftproof.report.requirements import Outcome
from shiftproof.types import Estimate, Finding

HOSTILE = '<a href="x">\'&]]>\x00\x1b[31m\ud800\ufffe é 数 \U0001f600\n\ttail'


def outcome(text: str, met: bool, model: str = "") -> Outcome:
    return Outcome(text, met, Estimate(0.5, 0.4, 0.6, 10), "d", "the model itself", "value", model=model)


def test_counts_and_states() -> None:
    findings = [
        Finding("pass", "order", "all in order"),
        Finding("warn", "seen", "unknown"),
        Finding("fail", "constant", "always class 0"),
        Finding("warn", "seen", "another"),
    ]
    outcomes = [outcome("clean>=0.8", False), outcome("clean>=0.1", True, "m")]
    root = ElementTree.fromstring(junit_xml("audit", [*outcome_cases(outcomes), *finding_cases(findings)]))
    assert root.tag == "testsuites"
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6",
        "failures": "2",
        "errors": "0",
        "skipped": "2",
    }
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.get("tests", "")) == len(cases)
        assert int(suite.get("failures", "")) == sum(case.find("failure") is not None for case in cases)
        assert int(suite.get("skipped", "")) == sum(case.find("skipped") is not None for case in cases)
    required, found = (suite.findall("testcase") for suite in root)
    assert [case.get("name") for case in required] == ["clean>=0.8", "m: clean>=0.1"]
    failure = required[0].find("failure")
    assert failure is not None
    assert failure.get("message") == str(outcomes[0])
    assert required[1].findtext("system-out") == str(outcomes[1])
    # a name that occurs twice would be taken for one test
    assert [case.get("name") for case in found] == ["order", "seen", "constant", "seen (2)"]
    assert found[1].find("skipped").get("message") == "warning: unknown"  # type: ignore[union-attr]


def test_claims_are_tests_where_they_are_required() -> None:
    claims = [
        ClaimOutcome("K1", "a beats b", "supported"),
        ClaimOutcome("K2", "b beats c", "undecided", why="too few"),
        ClaimOutcome("K3", "c beats d", "needs data: pacs"),
    ]
    required = RequiredClaims("claims", False, {one.id: one.verdict for one in claims})
    root = ElementTree.fromstring(junit_xml("run", [*outcome_cases([required]), *claim_cases(claims)]))
    states = {case.get("name"): case[0].tag for case in root.iter("testcase")}
    assert states == {"claims": "failure", "K1": "system-out", "K2": "failure", "K3": "skipped"}


@pytest.mark.parametrize("level", ["pass", "warn", "fail"])
def test_any_text_gives_valid_xml(level: str) -> None:
    content = junit_xml(HOSTILE, [Case(HOSTILE, HOSTILE, level, HOSTILE)])  # type: ignore[arg-type]
    minidom.parseString(content)
    case = next(ElementTree.fromstring(content).iter("testcase"))
    name = case.get("name", "")
    assert name.startswith('<a href="x">\'&]]>\ufffd\ufffd[31m\ufffd\ufffd é 数 \U0001f600')
    said = case[0].text if level == "pass" else case[0].get("message")
    assert "]]>" in str(said)
    assert "tail" in str(said)


def test_no_case_is_a_file_too() -> None:
    assert ElementTree.fromstring(junit_xml("run", [])).get("tests") == "0"
