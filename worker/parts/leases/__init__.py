"""Heavy commands of an agent: which ones they are, and the wait for their turn."""
