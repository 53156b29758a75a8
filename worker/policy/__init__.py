"""What a command is and whether it may run: words → meaning → Run | Ask | Refuse."""
