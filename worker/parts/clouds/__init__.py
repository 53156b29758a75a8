"""Clouds in the gateway: a provider's credentials, and signed requests."""
