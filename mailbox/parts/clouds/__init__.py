"""Clouds: how the gateway gets a provider's credentials from one, and how it signs requests."""
