"""Who an agent is and what it may do: role data, its loader, and the configuration."""
