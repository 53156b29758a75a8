"""Messages of agents and of other terminals: who takes which."""
