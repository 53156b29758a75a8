"""Runs hooks for an agent."""
