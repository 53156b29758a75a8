"""Processes of the run: how they start, are watched, and all end."""
