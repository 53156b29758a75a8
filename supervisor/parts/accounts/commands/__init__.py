"""The commands of accounts."""
