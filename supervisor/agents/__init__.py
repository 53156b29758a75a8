"""Agents and their processes: slots, start, restart, resume."""
