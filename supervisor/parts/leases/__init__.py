"""Heavy commands of all runs of one person on this machine take turns."""
