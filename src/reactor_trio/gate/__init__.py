"""Gives each client a place at one of several servers, and never carries a frame (`docs/protocol.md`, A gate)."""
