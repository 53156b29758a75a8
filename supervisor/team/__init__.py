"""Agents that start agents: spawn, mail, wait, halt, close, as the supervisor does them."""
