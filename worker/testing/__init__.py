"""Fake models and tools for tests; a run never imports them."""
