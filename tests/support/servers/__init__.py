"""A laboratory of model servers: one odd server, driven by profiles of those in the world."""
