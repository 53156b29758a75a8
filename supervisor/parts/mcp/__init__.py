"""MCP in the supervisor: the hub's process, and agents' requests to it."""
