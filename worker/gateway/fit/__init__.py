"""Fit a request to who receives it: one place for all wires. Pure."""
