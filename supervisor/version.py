"""The version of swarm. A test holds it to pyproject.toml: reading metadata costs 8 ms a start."""

VERSION = "0.1.0"
