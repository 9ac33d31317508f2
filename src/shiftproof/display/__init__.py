"""How values show themselves: charts, pieces of HTML for notebooks, small pictures. Knows nothing of what it shows."""

from shiftproof.display.chart import Chart
from shiftproof.display.html import badge, figure, lines, panel, small, table
from shiftproof.display.pictures import amplify, pixels_of, png_of, strip, tile

__all__ = [
    "Chart",
    "amplify",
    "badge",
    "figure",
    "lines",
    "panel",
    "pixels_of",
    "png_of",
    "small",
    "strip",
    "table",
    "tile",
]
