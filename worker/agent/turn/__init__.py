"""One turn: sample, run the calls, decide what is next."""
