"""The only holder of keys: providers, retries, one shared limit, the embedded model."""
