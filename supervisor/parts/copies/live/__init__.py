"""The merges of a running run."""
