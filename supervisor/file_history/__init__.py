"""Copies of files as they were before an agent's command, and putting them back."""
