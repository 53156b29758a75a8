"""Command files: prompts that a person calls by `/name`."""
