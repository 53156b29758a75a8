"""What a person does with the machines of a live run."""
