"""Which machine an agent runs on, and what is there."""
