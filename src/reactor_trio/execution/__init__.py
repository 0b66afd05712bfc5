"""Where author code runs: how it is called, and the model side of a session."""
