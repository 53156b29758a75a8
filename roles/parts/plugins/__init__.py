"""Plugins: folders that bring skills, hooks, MCP servers, commands and agents; files and rules."""
