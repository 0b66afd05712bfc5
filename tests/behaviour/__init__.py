"""Promises of the runtime, tested through the test kit; docs/behaviour.md lists them."""
