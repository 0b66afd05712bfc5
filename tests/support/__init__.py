"""Models, peers and doubles that several tests use. Tests import them as `tests.support.NAME`."""
