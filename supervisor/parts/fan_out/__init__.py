"""Fan-out: finds the items and runs one agent for each."""
