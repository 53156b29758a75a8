"""Who an agent is and what it may do: the role, its layers, and their narrowing."""
