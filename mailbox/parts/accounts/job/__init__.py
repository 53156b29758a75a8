"""What the program that signs in is told, and what it answers."""
