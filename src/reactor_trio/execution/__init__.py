"""Where author code runs: the model loop, placements (thread, process, ranks), and the model side of a session."""
