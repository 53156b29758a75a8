"""The tools that a model may call, and the path of a call from its arguments to its output."""
