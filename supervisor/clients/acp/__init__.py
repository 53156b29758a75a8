"""Editors: the Agent Client Protocol over stdio, in a process of its own, as clients of runs."""
