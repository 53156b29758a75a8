"""The service of jobs while a run lives."""
