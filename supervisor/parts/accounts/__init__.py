"""Accounts on the command line: which providers have one, signing in, listing, signing out."""
