"""Leases: slots that servers promise to a gate: their messages, the server's book of them, and the gate's side."""
