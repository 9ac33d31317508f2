"""Words that were deleted and inserted: in order, complete, and harmless wherever they are shown."""

import pytest

from shiftproof.perturbations.text import plain
from shiftproof.report.word_diff import Piece, marked, shortened, word_diff


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("a good film", "a good film", "a good film"),
        ("a good film", "a bad film", "a [-good-] {+bad+} film"),
        ("a good film", "a film", "a [-good-] film"),
        ("a film", "a very good film", "a {+very good+} film"),
        ("not bad", "bad", "[-not-] bad"),
        ("", "new", "{+new+}"),
        ("old", "", "[-old-]"),
        ("", "", ""),
        (plain("one two", "three"), plain("one", "three"), "one [-two-] ‖ three"),
    ],
)
def test_words_that_changed(before: str, after: str, shown: str) -> None:
    pieces = word_diff(before, after)
    assert marked(pieces) == shown
    assert " ".join(one.text for one in pieces if one.kind != "inserted").replace(" ‖ ", "\x1e") == before
    assert " ".join(one.text for one in pieces if one.kind != "deleted").replace(" ‖ ", "\x1e") == after


def test_frequent_words_of_long_texts_are_compared_too() -> None:
    words = ["the"] * 300
    after = [*words[:150], "new", *words[150:]]
    assert [one.kind for one in word_diff(" ".join(words), " ".join(after))] == ["same", "inserted", "same"]


def test_what_a_terminal_would_obey_is_not_shown() -> None:
    assert word_diff("a \x1b[31mred word", "a word") == [
        Piece("same", "a"),
        Piece("deleted", "�[31mred"),
        Piece("same", "word"),
    ]


def test_long_runs_are_cut_in_their_middle_and_changes_are_not() -> None:
    long = " ".join(str(i) for i in range(100))
    pieces = shortened(word_diff(f"{long} old", f"{long} {long}"), most=4)
    assert pieces[0].text == "0 1 … 98 99"
    assert pieces[-1] == Piece("inserted", long)
