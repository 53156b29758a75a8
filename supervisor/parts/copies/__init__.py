"""Agents in copies of the project: snapshots, layers, changes as values, and merges."""
