"""Runs as tools for MCP clients, over stdio or HTTP, in a process of its own."""
