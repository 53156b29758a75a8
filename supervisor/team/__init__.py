"""Agents that start agents: spawn, mail, wait, interrupt, close, on the supervisor's side."""
