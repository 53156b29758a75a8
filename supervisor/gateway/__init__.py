"""The gateway's process, and its keys."""
