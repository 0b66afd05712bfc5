"""Promises of the runtime, tested through the test kit; docs/reference/behaviour.md lists them."""
