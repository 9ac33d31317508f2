"""How values show themselves: charts, pieces of HTML for notebooks, small pictures. Knows nothing of what it shows."""

from shiftproof.display.chart import Chart
from shiftproof.display.html import badge, figure, lines, panel, small, table
from shiftproof.display.pictures import difference, png_of, strip, tile

__all__ = [
    "Chart",
    "badge",
    "difference",
    "figure",
    "lines",
    "panel",
    "png_of",
    "small",
    "strip",
    "table",
    "tile",
]
