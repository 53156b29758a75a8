"""What stands outside of a run and speaks to it: the command line, the chat, editors, programs."""
