"""A run as it is shown: the fold of its records, and records in words."""
