"""Markdown files with a front matter that people keep for agents: read, found, bounded."""
