"""The goal of a live run."""
