"""Tests. `tests.support` has what several of them use."""
