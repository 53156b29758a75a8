"""The hub's process: connections to MCP servers, and their credentials."""
