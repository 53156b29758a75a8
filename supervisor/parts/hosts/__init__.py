"""Agents on other machines: the nodes, who is where, and the process that drives them."""
