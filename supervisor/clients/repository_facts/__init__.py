"""What a repository says of itself in its files, for a draft of AGENTS.md."""
