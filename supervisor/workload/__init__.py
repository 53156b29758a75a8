"""The task of a run, its wait for input, and how it is stopped."""
