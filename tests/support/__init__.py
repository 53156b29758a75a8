"""Helpers that several tests share; `pythonpath` in pyproject.toml puts them on the path."""
