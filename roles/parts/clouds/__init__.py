"""Clouds: their tables, checked."""
