"""The model's context: the history, its token counts and the context blocks around it."""
