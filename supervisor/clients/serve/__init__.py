"""Program interfaces to a run: JSON lines, and servers for editors and other agents."""
