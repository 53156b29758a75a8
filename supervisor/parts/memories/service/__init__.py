"""The service of memories while a run lives."""
