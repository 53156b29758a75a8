"""Roles, permission limits and configuration: who an agent is and what it may do."""
