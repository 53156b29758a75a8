"""The version of swarm. A test compares it with pyproject.toml: reading metadata takes 8 ms."""

VERSION = "0.1.0"
