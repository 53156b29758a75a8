"""One agent's process: its session, turns, context and reports."""
