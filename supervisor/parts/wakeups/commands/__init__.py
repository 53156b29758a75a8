"""The commands of wake-ups."""
