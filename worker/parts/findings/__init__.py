"""Findings in an agent's process: its tools, and the digest that its model reads."""
