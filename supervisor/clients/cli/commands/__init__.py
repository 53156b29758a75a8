"""One file per command or family of commands."""
