"""File history: snapshots of files from before agents' commands, records of changes, and undo."""
