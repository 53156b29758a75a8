"""Wake-ups in an agent's process: its tool."""
