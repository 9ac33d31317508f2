"""Pictures of images in rows, with a name beside each row, headings above columns and a caption below each image."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil

from PIL import Image, ImageDraw

from shiftproof.display.lettering import height_of, plain, text_font, width_of, words_of, wrap, write
from shiftproof.display.pictures import Pixels, pixels_of

__all__ = ["Grid", "Row", "Tile", "draw_grids", "png_bytes", "tile_size"]

SIDE = 128
"""Pixels of the longer side of a tile, about."""
PAPER, INK, SOFT, LINE = (255, 255, 255), (28, 25, 23), (87, 83, 78), (226, 224, 221)
PAD, GAP, BETWEEN = 16, 8, 28
"""Pixels around all, between tiles, and between grids."""
_TITLE = 17
_WIDEST_NAME = 150


@dataclass(frozen=True, eq=False)
class Tile:
    """An image (C x H x W; what is outside [0, 1] is clipped), and what is written below it."""

    image: Pixels
    caption: str = ""


@dataclass(frozen=True, eq=False)
class Row:
    """Tiles side by side, and what they are called together."""

    name: str
    tiles: Sequence[Tile]


@dataclass(frozen=True, eq=False)
class Grid:
    """Rows below each other; `columns` stand above the tiles, `groups` (name, number of columns) above those."""

    rows: Sequence[Row]
    title: str = ""
    columns: Sequence[str] = ()
    groups: Sequence[tuple[str, int]] = ()

    @property
    def tiles(self) -> list[Tile]:
        """All tiles, row by row."""
        return [tile for row in self.rows for tile in row.tiles]


def tile_size(shape: Sequence[int], side: int = SIDE) -> tuple[int, int]:
    """Width and height at which an image (C x H x W) is shown: small ones magnified by a whole number.

    >>> tile_size((1, 28, 28)), tile_size((3, 224, 112))
    ((112, 112), (64, 128))
    """
    height, width = shape[-2:]
    longest = max(height, width)
    if longest <= side:
        times = side // longest
        return width * times, height * times
    return max(1, round(width * side / longest)), max(1, round(height * side / longest))


def draw_grids(grids: Sequence[Grid], side: int = SIDE) -> Image.Image:
    """All grids below each other on white, with their rows and columns aligned."""
    names = [row.name for grid in grids for row in grid.rows]
    beside = ceil(max((width_of(line) for name in names for line in wrap(name, _WIDEST_NAME)), default=0))
    # columns of all grids are equally wide, so that clean tiles stand below each other
    left, step = PAD + (beside + 2 * GAP if beside else 0), max(_column(grid, side) for grid in grids) + GAP
    drawn = [_Drawing(grid, side, left, step) for grid in grids]
    wide = max(left + step * most - GAP + PAD for most in (max(len(row.tiles) for row in one.rows) for one in grids))
    wide = max(wide, *(ceil(PAD + width_of(grid.title, _TITLE) + PAD) for grid in grids))
    tops = list(accumulate((one.height + BETWEEN for one in drawn), initial=PAD))
    sheet = Image.new("RGB", (wide, tops[-1] - BETWEEN + PAD), PAPER)
    for one, top in zip(drawn, tops, strict=False):
        one.draw(sheet, top)
    return sheet


def png_bytes(picture: Image.Image) -> bytes:
    """The picture as a PNG file."""
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


class _Drawing:
    """Where everything of one grid stands, from its own top."""

    def __init__(self, grid: Grid, side: int, left: int, step: int) -> None:
        self._grid, self._side, self._left, self._step = grid, side, left, step
        self._heads = [wrap(text, step) for text in grid.columns]
        self._title = height_of(1, _TITLE) + GAP if grid.title else 0
        self._group = height_of(1) + GAP if grid.groups else 0
        self._head = self._title + self._group
        if self._heads:
            self._head += height_of(max(map(len, self._heads))) + GAP // 2
        self._rows = [self._measure(row) for row in grid.rows]
        self.height = self._head + sum(self._rows) + GAP * (len(self._rows) - 1)

    def draw(self, sheet: Image.Image, top: int) -> None:
        """Draw everything on a sheet, from `top` on."""
        pen, centre = ImageDraw.Draw(sheet), self._left + (self._step - GAP) / 2
        if self._grid.title:
            pen.text((PAD, top), plain(self._grid.title), INK, text_font(_TITLE), anchor="la")
        self._draw_groups(pen, top + self._title)
        for place, lines in enumerate(self._heads):
            # headings stand on one line, above their tiles
            below = top + self._head - GAP // 2
            write(pen, (centre + place * self._step, below - height_of(len(lines))), lines, INK, "ma")
        top += self._head
        for row, high in zip(self._grid.rows, self._rows, strict=True):
            self._draw_row(sheet, pen, row, top)
            top += high + GAP

    def _draw_groups(self, pen: ImageDraw.ImageDraw, top: int) -> None:
        starts = accumulate((count for _, count in self._grid.groups), initial=0)
        for (name, count), start in zip(self._grid.groups, starts, strict=False):
            if not name:
                continue
            left, right = self._left + start * self._step, self._left + (start + count) * self._step - GAP - 1
            write(pen, ((left + right) / 2, top), [plain(name)], SOFT, "ma")
            pen.line((left, top + height_of(1) + 2, right, top + height_of(1) + 2), LINE)

    def _draw_row(self, sheet: Image.Image, pen: ImageDraw.ImageDraw, row: Row, top: int) -> None:
        high = max(tile_size(tile.image.shape, self._side)[1] for tile in row.tiles)
        lines = wrap(row.name, _WIDEST_NAME)
        write(pen, (PAD, top + (high - height_of(len(lines))) / 2), lines, INK, "la")
        for place, tile in enumerate(row.tiles):
            size = tile_size(tile.image.shape, self._side)
            left = self._left + place * self._step + (self._step - GAP - size[0]) // 2
            # around the tile, so that white images have an edge and no pixel is hidden
            pen.rectangle((left - 1, top - 1, left + size[0], top + size[1]), outline=LINE)
            sheet.paste(_picture(tile.image, size), (left, top))
            middle = left + size[0] / 2
            write(pen, (middle, top + high + 3), wrap(tile.caption, self._step), SOFT, "ma")

    def _measure(self, row: Row) -> int:
        high = max(tile_size(tile.image.shape, self._side)[1] for tile in row.tiles)
        lines = max(len(wrap(tile.caption, self._step)) for tile in row.tiles)
        return high + (3 + height_of(lines) if lines else 0)


def _picture(image: Pixels, size: tuple[int, int]) -> Image.Image:
    whole = Image.fromarray(pixels_of(image))
    how = Image.Resampling.NEAREST if size[0] >= whole.width else Image.Resampling.LANCZOS
    return whole.resize(size, how)


def _column(grid: Grid, side: int) -> int:
    """How wide a column is: as a tile, or as the longest word above or below one if that is not much wider."""
    tile = max(tile_size(one.image.shape, side)[0] for one in grid.tiles)
    words = [part for text in (*grid.columns, *(one.caption for one in grid.tiles)) for part in words_of(text)]
    return max(tile, min(ceil(max(map(width_of, words), default=0)), SIDE))
