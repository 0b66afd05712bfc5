"""Fuzz targets, and the tests that run them for a short time."""
