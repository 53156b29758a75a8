"""`swarm top`: all live runs of this person on one screen, grouped by what they need."""
