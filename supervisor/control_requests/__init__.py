"""Requests of people at the control server, and who may make them."""
