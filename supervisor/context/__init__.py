"""What all parts of a running supervisor share, and what is made of it."""
