"""The process a person starts: it owns every other process and the run's files."""
