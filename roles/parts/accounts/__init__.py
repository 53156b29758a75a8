"""Accounts: their tables, and what is stored of each."""
