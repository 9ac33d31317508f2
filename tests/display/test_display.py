"""Charts and pieces of HTML for notebooks: what they hold, and that nothing in a name becomes HTML."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from harmless import ODD, assert_harmless
from PIL import Image

from shiftproof.display import Chart, badge, figure, lines, panel, strip, table
from shiftproof.display.axes import numbers_axis, share_axis
from shiftproof.display.chart import Panel
from shiftproof.display.marks import Line, Style
from shiftproof.errors import UsageError


def chart(words: str = "What it says.") -> Chart:
    line = Line([(0.0, 0.5), (1.0, 0.25)], Style())
    return Chart("c", [Panel([line], numbers_axis(ODD, [0, 1]), share_axis("y"))], words=words)


def test_names_with_html_show_as_text() -> None:
    rows = [[ODD, "1"]]
    read = assert_harmless(
        panel(ODD, lines([ODD, badge("fail", ODD)]), table([ODD, "n"], rows), figure("data:image/x", ODD))
    )
    assert read.text.count(ODD) == 6
    assert "script" not in read.tags


def test_empty_parts_are_left_out() -> None:
    assert panel("t", "", "a").count("<div") == panel("t", "a").count("<div")


class TestChart:
    def test_a_notebook_shows_the_drawing_itself(self) -> None:
        one = chart()
        (source,) = assert_harmless(one._repr_html_()).images
        kind, _, content = source.partition(";base64,")
        assert kind == "data:image/svg+xml"
        assert base64.b64decode(content).decode() == one._repr_svg_()
        assert "What it says." in one._repr_html_()
        assert repr(one) == "Chart('c': What it says.)"

    def test_the_drawing_has_a_ground_for_dark_pages_and_its_texts_are_texts(self) -> None:
        root = ElementTree.fromstring(chart()._repr_svg_())
        ground = root[0]
        assert (ground.get("fill"), ground.get("width"), ground.get("height")) == ("#fff", "100%", "100%")
        assert any(element.text and "<script>" in element.text for element in root.iter())

    @pytest.mark.parametrize(("name", "start"), [("a.svg", b"<svg"), ("b/a.PNG", b"\x89PNG")])
    def test_save(self, name: str, start: bytes, tmp_path: Path) -> None:
        path = chart().save(tmp_path / name)
        assert path == tmp_path / name
        assert path.read_bytes().lstrip()[: len(start)].lower() == start.lower()

    def test_other_endings_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=re.escape("'a.pdf'; its name should end in .svg or .png")):
            chart().save(tmp_path / "a.pdf")
        assert not list(tmp_path.iterdir())


class TestPictures:
    def test_pixels_of_a_strip_are_those_of_the_images(self) -> None:
        images = np.random.default_rng(0).random((3, 2, 4, 4))
        content = base64.b64decode(strip(list(images), side=8).partition(",")[2])
        pixels = np.asarray(Image.open(io.BytesIO(content)))
        for place, image in enumerate(images):
            part = pixels[::2, 12 * place : 12 * place + 8 : 2]
            assert np.array_equal(part[..., :2], (image * 255).round().astype(np.uint8).transpose(1, 2, 0))
            assert not part[..., 2].any()
