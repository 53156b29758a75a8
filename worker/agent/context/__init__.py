"""What the model sees: the history, its tokens, and the fragments around it."""
