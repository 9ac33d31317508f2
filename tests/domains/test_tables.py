"""Your own texts: tables in three formats are the same data, and a bad one gets a sentence with the line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shiftproof.cli.options import absolute
from shiftproof.domains import load_domains
from shiftproof.domains.texts import ROOM, texts_of
from shiftproof.errors import DataError, DataNotFound, UsageError
from shiftproof.runs import find_study
from shiftproof.runs.seen import seen_domains
from shiftproof.runs.trust import Trust
from shiftproof.testing import check_domains

ROWS: list[dict[str, Any]] = [
    {
        "text": f"review {number}:\n so {'good' if number % 2 else 'bad'}, „naïve“",
        "label": number % 2,
        "domain": "books" if number < 20 else "dvd",
        "group": f"author-{number // 2}",
    }
    for number in range(40)
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A table by its ending."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        cells = [
            [json.dumps(str(value), ensure_ascii=False).replace("\\n", "\r\n") for value in row.values()]
            for row in rows
        ]
        path.write_bytes(("\ufeff" + "\r\n".join(map(",".join, [list(rows[0]), *cells])) + "\r\n\r\n").encode())
    else:
        path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("ending", ["csv", "jsonl", "ndjson", "parquet"])
def test_a_table_is_a_data_set(ending: str, tmp_path: Path) -> None:
    domains = load_domains(f"table:{write(tmp_path / f'reviews.{ending}', ROWS)}")
    assert (domains.kind, domains.names, domains.classes) == ("text", ("books", "dvd"), ("0", "1"))
    books = domains["books"]
    assert texts_of(books, [0, 1]) == ["review 0: so bad, „naïve“", "review 1: so good, „naïve“"]
    assert books.labels.tolist() == [0, 1] * 10
    assert books.ids[:2].tolist() == ["row-1", "row-2"]
    assert books.groups is not None
    assert books.splits is None
    check_domains(domains)


def test_columns_by_other_names_and_pairs(tmp_path: Path) -> None:
    rows = [
        {
            "Premise": "a b",
            "hypothesis": f"c {i}",
            "gold": ["yes", "no"][i % 2],
            "genre": i % 3,
            "key": f"k{i}",
            "text": 1,
        }
        for i in range(12)
    ]
    named = {"text": "premise", "text2": "hypothesis", "label": "gold", "domain": "genre", "id": "key"}
    domains = load_domains(f"table:{write(tmp_path / 'pairs.jsonl', rows)}", **named)
    assert (domains.names, domains.classes) == (("0", "1", "2"), ("no", "yes"))
    assert texts_of(domains["0"])[0] == "a b\x1ec 0"
    assert domains["1"].ids[0] == "k1"
    with pytest.raises(DataError, match="lacks the column 'author' \\(the group\\); it has premise, hypothesis, gold"):
        load_domains(f"table:{tmp_path / 'pairs.jsonl'}", **named, group="author")


def test_splits_and_ids_are_kept_and_long_texts_are_read(tmp_path: Path) -> None:
    rows = [
        {"text": "x " * 100_000, "label": i % 2, "domain": "d", "split": s, "id": 7 - i}
        for i, s in enumerate(["train", "Dev", "test"])
    ]
    domain = load_domains(f"table:{write(tmp_path / 't.csv', rows)}")["d"]
    assert domain.splits is not None
    assert domain.splits.tolist() == ["train", "validation", "test"]
    assert domain.ids.tolist() == ["7", "6", "5"]
    assert domain.shape == (199_999 + ROOM,)


def test_classes_that_are_numbers_are_sorted_by_size(tmp_path: Path) -> None:
    rows = [{"text": "x", "label": float(label), "domain": "d"} for label in (10, 2, -1)]
    assert load_domains(f"table:{write(tmp_path / 't.parquet', rows)}").classes == ("-1", "2", "10")


GOOD = "so good,1,d\nso bad,0,d\n"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("text,label\nx,1\n", r"t\.csv lacks the column 'domain'; it has text, label\. Expected: "),
        ("", "lacks the column 'text'; it has none"),
        ("text;label;domain\nx;1;d\n", "nowhere in its first line, but ';'"),
        ("text,label,domain\n", "t.csv has no rows"),
        ("text,text,label,domain\n", "two columns called 'text'"),
        (
            f"text,label,domain\n{GOOD},1,d\n  ,0,d\n",
            r"t\.csv, lines 4, 5: the text is empty; .* --set data\.empty=keep",
        ),
        (f"text,label,domain\n{GOOD}x,,d\n", "t.csv, line 4: the label is missing"),
        (f"text,label,domain\n{GOOD}x,NaN,d\n", "line 4: the label is NaN"),
        (f"text,label,domain\n{GOOD}x,1\n", "line 4: the domain is missing"),
        (f"text,label,domain\n{GOOD}x, y,1,d\n", "line 4: 4 values for 3 columns; put quotation marks"),
        (f'text,label,domain\n{GOOD}"x,1,d\ny,0,d\n', "line 4: unexpected end of data; is a quotation mark not closed"),
        ('text,label,domain\n"a\nb",1,d\nx,,d\n', "line 4: the label is missing"),
        ("text,label,domain\nx,1,d\ny,1,e\n", "all 2 rows have the label '1'; a classifier needs two"),
        ("text,label,domain\nx,1.5,d\ny,2,d\n", "line 2: the label is 1.5; classes are names or whole numbers"),
        ("text,label,domain,split\nx,1,d,holdout\n", "line 2: split 'holdout' should be train, validation or test"),
        ("text,label,domain,split\nx,1,d,train\ny,0,d,\n", "1 rows have no split while others do"),
        ("text,label,domain,id\nx,1,d,a\ny,0,d,a\nz,0,e,a\n", r"1 ids are in a domain .* 'a' in 'd' \(lines 2, 3\)"),
        ("text,label,domain,id\nx,1,d,a\ny,0,d,\n", "line 3: the id is missing"),
        ("text,label,domain,group,split\nx,1,d,p,train\ny,0,d,p,test\n", "1 groups are in more than one split"),
        (b"text,label,domain\nx,1,d\ncaf\xe9,0,d\n", "t.csv, line 3: the byte 0xe9 is not UTF-8"),
        ("text,label,domain\nx,1,d\n".encode("utf-16"), "line 1: this is UTF-16"),
        (
            "text,label,domain\nx,1,d\n".encode("utf-16-le"),
            r"t\.csv, line 1: there is a NUL byte .* save the file as UTF-8",
        ),
        (b"text,label,domain\nx,1,d\na\0b,0,d\n", r"t\.csv, line 3: there is a NUL byte"),
        (
            "text,label,domain\ngr\u00fcn,1,d\n".encode() + b"caf\xe9,0,d\n",
            r"t\.csv, line 3: the byte 0xe9 is not UTF-8",
        ),
        (
            "text,label,domain\nx,,d\n,1,d\ny,2,d\n",
            r"line 2: the label is missing \(and 1 more; see 'shiftproof validate'",
        ),
    ],
)
def test_a_bad_csv_gets_one_sentence(content: str | bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError, match=sentence) as caught:
        load_domains(f"table:{path}")
    assert "\n" not in str(caught.value)


OTHER = '{"text": "y", "label": "b", "domain": "d"}'


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"text": null, "label": "a", "domain": "d"}', "line 2: the text is missing"),
        ('{"label": "a", "domain": "d"}', "line 2: the text is missing"),
        ('{"text": 5, "label": "a", "domain": "d"}', "line 2: the text should be text, not int"),
        ('{"text": "x", "label": NaN, "domain": "d"}', "line 2: the label is NaN"),
        ('{"text": "x", "label": "a", "domain": NaN}', "line 2: the domain is missing"),
        ('{"text": "x", "label": ["a"], "domain": "d"}', "line 2: the label should be text or a number, not list"),
        ('{"text": "\\ud800", "label": "a", "domain": "d"}', r"line 2: the text holds half a character \(\\ud800\)"),
        ('{"text": "x", "label": "a\\u0000", "domain": "d"}', "line 2: the label .* holds a NUL character"),
        ('{"text": "x", ', "line 2: not JSON"),
        ('["x", "a", "d"]', "line 2: expected an object"),
    ],
)
def test_a_bad_jsonl_gets_one_sentence(line: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f"{OTHER}\n{line}\n")
    with pytest.raises(DataError, match=sentence):
        load_domains(f"table:{path}")


def test_a_bad_parquet_gets_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for rows, sentence in [
        (
            [{"text": "x", "label": 1.0, "domain": "d"}, {"text": "y", "label": np.nan, "domain": "d"}],
            "row 2: the label is NaN",
        ),
        (
            [{"text": "x", "label": 1, "domain": "d"}, {"text": None, "label": 0, "domain": "d"}],
            "row 2: the text is missing",
        ),
        ([{"text": b"x", "label": 1, "domain": "d"}], "row 1: the text should be text, not bytes"),
        ([{"text": "x"}], "lacks the column 'label'; it has text"),
    ]:
        with pytest.raises(DataError, match=sentence):
            load_domains(f"table:{write(path, rows)}")
    path.write_bytes(b"PAR1 not")
    with pytest.raises(DataError, match="not a readable Parquet file"):
        load_domains(f"table:{path}")


def test_paths_that_are_no_table(tmp_path: Path) -> None:
    with pytest.raises(DataNotFound, match=r"nowhere.csv does not exist. Expected: a .csv, .jsonl"):
        load_domains(f"table:{tmp_path / 'nowhere.csv'}")
    with pytest.raises(DataNotFound, match="is a folder"):
        load_domains(f"table:{tmp_path}")
    (tmp_path / "t.xlsx").touch()
    with pytest.raises(DataError, match="ends in '.xlsx', which is not known"):
        load_domains(f"table:{tmp_path / 't.xlsx'}")
    for name, meant in (("t.csv", "'table:t.csv' (texts) or 'folder:t.csv'"), ("t.jsonl", "'table:t.jsonl'?")):
        Path(name).touch()
        with pytest.raises(UsageError) as caught:
            load_domains(name)
        assert meant in str(caught.value)


def test_an_empty_text_is_kept_if_told(tmp_path: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    path = write(tmp_path / "t.jsonl", [*ROWS, {"text": " ", "label": 1, "domain": "dvd", "group": "author-x"}])
    assert len(load_domains(f"table:{path}", empty="keep")["dvd"]) == 21
    code, _, err = run("train", "--data", f"table:{path}", "--target", "dvd")
    assert (code, err.count("\n")) == (1, 1)
    assert "t.jsonl, line 41: the text is empty" in err


def test_a_table_is_the_same_from_wherever_it_is_named(tmp_path: Path) -> None:
    here = f"table:{write(tmp_path / 't.jsonl', ROWS)}"
    assert absolute("table:t.jsonl") == here
    card = {"data": {"name": "table:t.jsonl"}, "sources": ["books"]}
    assert seen_domains(card, here) == {"books"}
    # a file of this machine is read, whoever names it
    Trust().check(Path("run"), here, [])
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "s.yaml").write_text("data: table:../t.jsonl\nmodels: {m: {model: text-cnn}}\n")
    assert find_study("studies/s.yaml").data.source == here
