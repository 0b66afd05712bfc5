"""The place where a model runs: a thread of this process, a process of its own, or several (ranks)."""
