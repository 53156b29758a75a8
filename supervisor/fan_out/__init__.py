"""The harness divides the work: items found (pure and by I/O), one agent for each."""
