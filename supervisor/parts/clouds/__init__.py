"""Clouds on the command line: which providers have their credentials from one."""
