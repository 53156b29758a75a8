"""The small values that messages are made of."""
