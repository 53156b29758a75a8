"""Accounts in the gateway: sign-in, refresh, and the key of each request."""
