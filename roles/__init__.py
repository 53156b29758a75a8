"""Who an agent is and what it may do: roles, their bounds, and the configuration."""
