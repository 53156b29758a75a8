"""Processes of the run: how they begin, how they are watched, how none of them is left."""
