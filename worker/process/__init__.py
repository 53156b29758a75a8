"""Processes that the supervisor starts: fork-server, boot, life-line, prefork and prewarm."""
