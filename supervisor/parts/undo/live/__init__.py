"""The changes of a running run's files, as they happen."""
