"""What a program sees of a run: JSON lines, and servers for editors and other agents."""
