"""What a tool is, to the model and to the code that calls it."""
