"""What an agent's newest request was made of, from the journal."""
