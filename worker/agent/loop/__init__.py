"""The loop of a turn: requests, calls, and the shortening of the history."""
