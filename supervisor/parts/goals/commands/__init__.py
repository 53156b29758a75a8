"""`swarm goal`."""
