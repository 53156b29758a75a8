"""The notices of a live run."""
