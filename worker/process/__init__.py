"""Processes that the supervisor starts: fork-server, boot, lifeline, prefork and prewarm."""
