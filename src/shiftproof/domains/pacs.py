"""PACS: photographs, art, cartoons and sketches of seven things."""

from dataclasses import dataclass

from shiftproof.domains.domain import Domains
from shiftproof.domains.files import open_files
from shiftproof.domains.folder import domains_of_files
from shiftproof.domains.index import index_of_tree
from shiftproof.domains.outline import Outline
from shiftproof.domains.registry import DOMAINS, DataSet, find_file
from shiftproof.types import Side

__all__ = ["FILES", "LAYOUT", "PACS"]

FILES = ("pacs_64.zip or pacs.zip or pacs_64 or pacs",)
CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
COUNTS = {"art_painting": 2_048, "cartoon": 2_344, "photo": 1_670, "sketch": 3_929}

LAYOUT = "art_painting, cartoon, photo and sketch, each with seven class folders of images, as a folder or zipped"


@DOMAINS.register(
    "pacs",
    content="9,991 RGB images in art_painting, cartoon, photo, sketch; seven classes",
    paper="Li et al., ICCV 2017",
)
@dataclass(frozen=True)
class PACS(DataSet):
    """Photographs, art, cartoons and sketches of seven things, resized to `size` pixels."""

    size: Side = 64

    files = FILES

    def load(self) -> Domains:
        """Open the archive or folder; images are decoded when they are asked for."""
        path = find_file("pacs", self.files[0], LAYOUT)
        return domains_of_files("pacs", index_of_tree(open_files(path)), self.size, channels=3)

    def outline(self) -> Outline:
        """That of the published images."""
        return Outline((3, self.size, self.size), CLASSES, COUNTS)
