"""The gateway process: model providers, API keys, retries, the shared rate limit, the embedded
model.
"""
