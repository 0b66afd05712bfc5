"""The gate: it gives each client a place at one of several servers. No frame passes it (`docs/protocol.md`, A gate)."""
