"""From options, task file and configuration to a run request."""
