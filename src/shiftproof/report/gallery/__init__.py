"""Samples on the page: pictures or texts of some, chosen at random, with what was measured of each."""
