"""Drawings: what a chart's values say stands at the right place, in XML that every viewer reads."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from shiftproof.display.axes import Axis, names_axis, numbers_axis, share_axis
from shiftproof.display.chart import Chart, Key, Panel, heat_map, style_of, styles_by_role
from shiftproof.display.draw import PALETTE, text_width
from shiftproof.display.marks import Band, Boxes, Dots, Line, Rule, Style, Whiskers

SVG = "{http://www.w3.org/2000/svg}"
STYLE = Path(__file__).parents[2] / "src" / "shiftproof" / "report" / "page" / "style.css"


def drawn(*marks: object, x: Axis | None = None, y: Axis | None = None, keys: tuple[Key, ...] = ()) -> ET.Element:
    """The drawing of one panel of 100 by 100 pixels, whose axes run from 0 to 1 unless told."""
    axis = Axis("", 0, 1)
    return ET.fromstring(Chart("c", [Panel(marks, x or axis, y or axis, width=100, height=100)], keys).svg())  # type: ignore[arg-type]


def numbers(text: str) -> list[float]:
    return [float(one) for one in re.findall(r"-?\d+\.?\d*", text)]


def corner(svg: ET.Element) -> tuple[float, float]:
    """Where the axes meet: the lower left of the panel."""
    (axis,) = (one for one in svg.iter(f"{SVG}path") if one.get("class") == "axis" and "h100" in (one.get("d") or ""))
    return tuple(numbers(axis.get("d", ""))[:2])  # type: ignore[return-value]


def test_a_dot_stands_where_its_numbers_say() -> None:
    svg = drawn(Dots([(0.25, 0.75)], Style(1), ("m",), ["here"]))
    (dot,) = svg.iter(f"{SVG}circle")
    left, bottom = corner(svg)
    assert (float(dot.get("cx", 0)), float(dot.get("cy", 0))) == (left + 25, bottom - 75)
    assert dot.findtext(f"{SVG}title") == "here"
    assert numbers(dot.get("data-at", "")) == [left + 25, bottom - 75]
    assert (dot.get("fill"), dot.get("class")) == (PALETTE[1], "f1")


@pytest.mark.parametrize(
    ("step", "turns"),
    [
        ("", [(0, 0), (50, 50), (100, 100)]),
        # level behind a point, or before it
        ("before", [(0, 0), (0, 50), (50, 50), (50, 100), (100, 100)]),
        ("after", [(0, 0), (50, 0), (50, 50), (100, 50), (100, 100)]),
    ],
)
def test_lines_go_straight_or_in_steps(step: str, turns: list[tuple[int, int]]) -> None:
    svg = drawn(Line([(0, 0), (0.5, 0.5), (1, 1)], Style(0), step=step))  # type: ignore[arg-type]
    (path,) = (one.get("d", "") for one in svg.iter(f"{SVG}path") if one.get("class") == "s0")
    left, bottom = corner(svg)
    places, x, y = [], 0.0, 0.0
    for letter, text in re.findall(r"([MLHV])([^MLHVZ]*)", path):
        found = numbers(text)
        x = found[0] if letter != "V" else x
        y = found[-1] if letter != "H" else y
        places.append((round(x - left), round(bottom - y)))
    assert places == turns


def test_a_band_encloses_its_ranges() -> None:
    svg = drawn(Band([(0, 0.2, 0.4), (1, 0.6, 0.8)], Style(0, opacity=0.1)))
    (path,) = (one.get("d", "") for one in svg.iter(f"{SVG}path") if one.get("class") == "f0")
    left, bottom = corner(svg)
    found = numbers(path)
    corners = {(round(x - left), round(bottom - y)) for x, y in zip(found[::2], found[1::2], strict=True)}
    assert corners == {(0, 20), (0, 40), (100, 60), (100, 80)}


def test_whiskers_boxes_and_rules() -> None:
    marks = Whiskers([(0.5, 0.1, 0.9)], Style(0)), Boxes([(0, 0.5, 0, 1)], Style(1)), Rule(0.3, Style(None), label="30")
    svg = drawn(*marks, Rule(5, Style(2)))
    left, bottom = corner(svg)
    (bar,) = (numbers(one.get("d", "")) for one in svg.iter(f"{SVG}path") if one.get("class") == "s0")
    assert bar == pytest.approx([left + 50, bottom - 10, bottom - 90])
    (box,) = (one for one in svg.iter(f"{SVG}rect") if one.get("class") == "f1")
    assert [float(box.get(name, 0)) for name in ("x", "y", "width", "height")] == [left, bottom - 100, 50, 100]
    assert "30" in "".join(svg.itertext())
    # a rule beyond the axis is not drawn somewhere else
    assert not [one for one in svg.iter() if one.get("class") == "s2"]


def test_a_logarithmic_and_a_turned_axis() -> None:
    axis = numbers_axis("weight", [1, 100], log=True)
    assert axis.place(10) == pytest.approx(0.5)
    assert names_axis(["a", "b"], turned=True).place(0) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 1, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (0, 0.003, ["0", "0.0005", "0.001", "0.0015", "0.002", "0.0025", "0.003"]),
        (-3, 4, ["-2", "0", "2", "4"]),
        (5, 5, ["4.6", "4.8", "5", "5.2", "5.4"]),
    ],
)
def test_round_ticks(low: float, high: float, labels: list[str]) -> None:
    assert [label for _, label in numbers_axis("", [low, high]).ticks] == labels


def test_values_that_are_no_numbers_do_not_move_an_axis() -> None:
    axis = numbers_axis("", [0, float("nan"), 2, float("inf")])
    assert (axis.low, axis.high) == (0, 2)


def test_names_are_text_whatever_they_are() -> None:
    name = "<script>alert('x')</script> & \"q\" \x00\n"
    style = Style(0)
    mark = Dots([(0, 0)], style, (name,), [name])
    chart = Chart("c", [Panel([mark], Axis(name, 0, 1), share_axis(name), name)], [Key(name, style)], name, name)
    svg = ET.fromstring(chart.svg())
    assert "script" not in {one.tag.removeprefix(SVG) for one in svg.iter()}
    assert sum("<script>alert('x')</script>" in (one.text or "") for one in svg.iter()) >= 5
    # what the script looks for: keys, and the marks that are of them
    (key,) = (one.get("data-key") for one in svg.iter() if one.get("data-key"))
    (of,) = (one.get("data-of", "") for one in svg.iter() if one.get("data-of"))
    assert json.loads(of) == [key]


def test_a_legend_wraps_before_it_is_cut() -> None:
    styles = style_of(f"a rather long name of model {i}" for i in range(9))
    keys = tuple(Key(name, style, "both") for name, style in styles.items())
    svg = drawn(Dots([(0, 0)], Style(0)), keys=keys)
    hits = [one for one in svg.iter(f"{SVG}rect") if one.get("fill") == "transparent"]
    assert len(hits) == 9
    assert len({one.get("y") for one in hits}) > 1
    ends = [float(one.get("x", 0)) + float(one.get("width", 0)) for one in hits]
    assert max(ends) <= float(svg.get("width", 0)) + 1


def test_models_and_domains_can_be_told_apart() -> None:
    many = style_of(str(i) for i in range(20))
    assert len({(one.colour % 8, one.shape) for one in many.values() if one.colour is not None}) == 20
    roles = styles_by_role([f"t{i}" for i in range(6)], ["a", "b"])
    assert len({(one.dash, one.shape) for one in roles.values()}) == 8
    assert roles["a"].dash == roles["b"].dash == (5, 4)


def test_a_heat_map_has_its_percentages_and_says_which_cell_is_which() -> None:
    cells = [("m", "fog", 0.25), ("m", "snow", 0.75), ("other", "fog", 1.0)]
    svg = ET.fromstring(heat_map("h", cells, rows=["m", "other"], columns=["fog", "snow"], title="t").svg())
    texts = [one.text for one in svg.iter(f"{SVG}text")]
    assert {"25", "75", "100", "fog", "snow", "m", "other"} <= set(texts)
    titles = {one.text for one in svg.iter(f"{SVG}title")}
    assert titles == {"m, fog: 25.0%", "m, snow: 75.0%", "other, fog: 100.0%"}
    strong = [float(one.get("fill-opacity", 0)) for one in svg.iter(f"{SVG}rect") if one.get("data-box")]
    assert strong[0] < strong[1] < strong[2]


def test_files_and_the_page_have_the_same_colours() -> None:
    light = STYLE.read_text().split("@media")[0]
    assert [re.search(rf"--c{i}: (#\w+)", light)[1] for i in range(len(PALETTE))] == list(PALETTE)  # type: ignore[index]


def test_long_texts_are_wide() -> None:
    assert text_width("iiii") < text_width("abcd") < text_width("MMMM")


def test_a_picture_of_pixels() -> None:
    chart = Chart("c", [Panel([Dots([(0.5, 0.5)], Style(0))], Axis("x", 0, 1), share_axis("y"))])
    assert chart.png().startswith(b"\x89PNG")
