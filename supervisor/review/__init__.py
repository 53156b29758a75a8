"""Review mode: a run, or an agent, has changes to code reviewed."""
