"""What a person asks of the machines of a live run."""
