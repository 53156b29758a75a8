"""Configuration: layers, their schema, and how they merge."""
