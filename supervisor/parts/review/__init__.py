"""Review mode: a run, or an agent of it, has code changes reviewed."""
