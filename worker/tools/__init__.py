"""The tools a model may call, and the way of a call from its words to its output."""
