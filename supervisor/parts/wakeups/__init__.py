"""Wake-ups: agents that wait without a process, and are woken for a reason that is journaled."""
