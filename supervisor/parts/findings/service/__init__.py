"""The service of findings while a run lives."""
