"""The gate: it gives each client a slot of one of several servers. No frame passes it.

`docs/reference/protocol.md` has its messages ("A gate").
"""
