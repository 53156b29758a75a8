"""Facts that the agents of a run publish for each other."""
