"""What a person asked for, as one value, and what follows from it alone."""
