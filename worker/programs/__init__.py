"""Programs that the command line starts: each explains or runs one thing, and ends."""
