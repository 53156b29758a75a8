"""Wake-ups while a run lives."""
