"""The conversation: a client of one run at a time, in a process of its own. See docs/chat.md."""
