"""What travels of accounts: where the gateway finds the key of a provider."""
