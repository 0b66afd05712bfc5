"""What is left of sessions that are over, looked at with the collector off."""
