"""One turn: sample, run the calls, decide the next step."""
