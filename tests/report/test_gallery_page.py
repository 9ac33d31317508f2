"""The gallery on the page: pictures, words and lengths; and in a browser, where there is one, its filters."""

from __future__ import annotations

import html
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_sections import CERTIFIED, CERTIFY, N, measurement, report_of

from shiftproof.evidence import Column, Evidence
from shiftproof.report.gallery.files import GalleryFile, GallerySample, Version
from shiftproof.report.gallery.outcomes import Attacked, Certified
from shiftproof.report.gallery.pictures import amplify, encode_picture, is_picture, note_on_size, pixels_of
from shiftproof.report.gallery.words import bars_of, radius_text, scale_of, vote_words
from shiftproof.report.page import render_page
from shiftproof.report.privacy import SampleNames

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
HELD = Certified("s", "vote", "smoothed", "g", "l2", "px", 1, True, 0.3, False, 1, 90, 90, 0, 7, 100)
HIT = Attacked("a", "attack, l2 0.5", "smoothed", "g", "l2", "px", 0.5, 0, False, 0.4)


def report() -> Any:
    """Two models on a source and a target; the second is wrong twice as often."""
    measured = []
    for model, less in (("m", 0), ("<i>n</i>", 10)):
        for domain, right in (("photo", 36), ("sketch", 24)):
            measured.append(measurement(domain, "clean", right - less, model=model))
            facts = {**CERTIFY, "title": "gaussian 0.25", "radius": 0.3, "skipped": False, "bound": "clopper-pearson"}
            measured.append(measurement(domain, "certify", right - less - 8, CERTIFIED, model=model, **facts))
    picture = encode_picture(np.zeros((3, 4, 4)))
    files = {
        domain: GalleryFile(
            domain,
            "image",
            True,
            [GallerySample(f"{domain}/{i}", [Version("original", picture=picture)]) for i in range(10, N, 3)],
        )
        for domain in ("photo", "sketch")
    }
    return report_of(Evidence(measured), galleries=files)


def test_each_sample_is_a_tile_that_opens_without_a_script() -> None:
    page = render_page(report())
    assert page.count('<details class="g-sample') == 20
    assert page.count('<details class="g-domain') == 2
    assert len(re.findall(r'class="g-controls" hidden', page)) == 1
    # six of each domain are printed
    assert page.count('<details class="g-sample g-screen"') == 8
    assert "<i>n</i>" not in page


def test_a_page_without_samples_has_tiles_without_pictures() -> None:
    page = render_page(replace(report(), names=SampleNames(True, "key")))
    assert "base64" not in page
    assert "photo/1" not in page
    assert page.count('<details class="g-sample') == 20
    assert page.count(SampleNames(True, "key").of("photo/10")) >= 2


@pytest.mark.skipif(BROWSER is None, reason="there is no browser")
def test_buttons_leave_the_samples_that_they_count(tmp_path: Path) -> None:
    script = """<script>onload = () => {
      const shown = () => document.querySelectorAll('.g-sample:not([hidden])').length, seen = [shown()];
      const press = (kind, value) => {
        const button = [...document.querySelectorAll('button[data-choose]')]
          .find(one => one.dataset.choose === kind && one.dataset.value === value);
        const promised = Number((button.querySelector('small') || {}).textContent);
        button.click();
        seen.push(shown(), promised, button.getAttribute('aria-pressed'));
      };
      press('tag', 'wrong'); press('domain', 'sketch'); press('domain', 'sketch'); press('model', '1');
      document.title = 'seen: ' + seen.join(' ');
    }</script></body>"""
    page = tmp_path / "page.html"
    page.write_text(render_page(report()).replace("</body>", script))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"--user-data-dir={tmp_path / 'browser'}"]
    dumped = subprocess.run([str(BROWSER), *flags, page.as_uri()], capture_output=True, text=True, timeout=60).stdout
    found = re.search(r"<title>seen: (.*)</title>", dumped)
    assert found is not None
    ids = range(10, N, 3)
    wrong = {
        name: [sum(i >= right - less for i in ids) for less in (0, 10)]
        for name, right in (("photo", 36), ("sketch", 24))
    }
    both = [wrong["photo"][place] + wrong["sketch"][place] for place in (0, 1)]
    seen = html.unescape(found[1]).split()
    expected = [20, both[0], both[0], "true", wrong["sketch"][0], wrong["sketch"][0], "true"]
    expected += [both[0], wrong["sketch"][0], "false", both[1], "0", "true"]
    assert seen[:10] == [str(one) for one in expected[:10]]
    assert (seen[10], seen[12]) == (str(both[1]), "true")


@pytest.mark.parametrize("size", [0.5, 0.3, 0.05, 8 / 255, 1e-4, 1.0])
def test_a_difference_is_amplified_as_far_as_it_goes(size: float) -> None:
    change = np.array([[[size, -size / 3, 0.0]]])
    shown, factor = amplify(change)
    assert shown.min() >= -1e-9
    assert shown.max() <= 1 + 1e-9
    np.testing.assert_allclose((shown - 0.5) / factor, change, atol=1e-12)
    # the next of 1, 2, 5, 10 ... would leave the range
    digit = round(factor / 10 ** math.floor(math.log10(factor) + 1e-9))
    assert factor * {1: 2, 2: 2.5, 5: 2}[digit] * size > 0.5


def test_channels_become_colours() -> None:
    assert pixels_of(np.full((1, 1, 1), 0.2)).tolist() == [[[51, 51, 51]]]
    assert pixels_of(np.array([[[1.0]], [[0.0]]]), third=0.5).tolist() == [[[255, 0, 128]]]
    assert pixels_of(np.arange(5).reshape(5, 1, 1) / 5).shape == (1, 1, 3)
    assert "first three" in note_on_size((5, 8, 8))
    assert note_on_size((3, 32, 32)) == ""


def test_only_pictures_of_our_own_are_pictures() -> None:
    assert is_picture(encode_picture(np.zeros((3, 8, 8))))
    assert is_picture(encode_picture(np.zeros((3, 200, 100))))
    for text in ("https://x.org/a.png", 'data:image/png;base64,AA" onload="x', "data:text/html;base64,AA==", ""):
        assert not is_picture(text)


def test_votes_are_bars_that_add_up() -> None:
    bars = list(bars_of(replace(HELD, label_count=2), 2, ["a", "b", "c", "d"]))
    assert [(one.name, one.role, one.count) for one in bars] == [
        ("b", "chosen", 90),
        ("a", "runner-up", 7),
        ("c", "label", 2),
        ("others", "", 1),
    ]
    assert sum(one.percent for one in bars) == pytest.approx(100)
    assert [one.right for one in bars] == [False, False, True, False]
    assert list(bars_of(replace(HELD, n=0), 2, ["a", "b"])) == []


def test_lengths_stand_on_one_scale_where_they_can_be_compared() -> None:
    scale = scale_of(HELD, HIT)
    assert scale.radius is not None
    assert scale.distance is not None
    assert scale.radius / scale.distance == pytest.approx(0.3 / 0.4)
    assert "same classifier" in scale.words
    assert "no order is claimed" in scale_of(HELD, replace(HIT, classifier="base", noise="")).words
    other = scale_of(HELD, replace(HIT, norm="linf"))
    assert (other.radius, other.distance) == (None, None)
    assert "not compared" in other.words
    abstaining = scale_of(replace(HELD, prediction=-1, right=False, radius=0.0), HIT)
    assert (abstaining.radius, "nothing certified" in abstaining.words) == (None, True)


@pytest.mark.parametrize("radius", [0.67449, 1.0, 0.0999999, 12.3456, 3e-5])
def test_a_radius_is_never_rounded_up(radius: float) -> None:
    shown = float(radius_text(radius, "l2").removeprefix("l2 "))
    assert radius * 0.99 <= shown <= radius * (1 + 1e-9)


def test_sentences_say_what_is_guaranteed() -> None:
    classes = ["cat", "dog"]
    assert vote_words(HELD, classes) == "vote (smoothed classifier): answers dog, guaranteed within l2 0.3 (px)."
    assert "abstains" in vote_words(replace(HELD, prediction=-1, right=False), classes)
    assert "which is wrong" in vote_words(replace(HELD, right=False), classes)
    assert "not certified" in vote_words(replace(HELD, skipped=True), classes)


def test_columns_of_a_certificate_may_be_missing() -> None:
    """Imported certificates have no votes."""
    known = report()
    view = known.gallery_maker.gallery.domains[0].samples[0].models[0]
    assert view is not None
    assert view.votes == []
    assert Column("radius", "float", "") in CERTIFIED
