"""The supervisor process: a person starts it; it owns the run's files and all other processes."""
