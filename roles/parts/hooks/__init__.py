"""Hooks: their files, matching, input and output. Pure."""
