"""The placement of a model, which is where it runs: a thread of this process, a process of its own, or several (ranks)."""
