"""Drivers: how the runtime calls author code of each kind (generator, `run()`, `start_session()`), and whose turn it is."""
