"""Goals: a run goes on until commands say that it is done."""
