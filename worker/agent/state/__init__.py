"""The state of a session, and the answers that it gives without a turn."""
