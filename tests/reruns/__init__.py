"""The end of a whole run: what failed runs once more, each test alone."""
