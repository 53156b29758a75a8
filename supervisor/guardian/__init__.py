"""The guardian: a process that judges an action in a person's place, and whoever asks it."""
