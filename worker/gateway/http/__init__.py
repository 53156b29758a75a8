"""Requests over HTTP, and the way to a host."""
